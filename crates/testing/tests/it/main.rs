//! Tests through the public API only.

mod public_api;
