//! Tests through the public API only.

mod configuration;
mod contribution;
mod folded;
mod gate;
mod network;
mod parameters;
