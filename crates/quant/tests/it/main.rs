//! What the crate promises, seen from outside.

mod public_api;
