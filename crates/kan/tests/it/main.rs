//! Tests through the public API.

mod refusals;
