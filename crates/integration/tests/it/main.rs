//! Tests through the public API only.

mod configuration;
mod network;
