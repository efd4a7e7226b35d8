//! Tests through the public API only.

mod configuration;
mod network;
mod public_api;
