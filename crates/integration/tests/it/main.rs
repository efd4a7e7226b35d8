//! Tests through the public API only.

mod configuration;
mod contribution;
mod gate;
mod network;
mod parameters;
