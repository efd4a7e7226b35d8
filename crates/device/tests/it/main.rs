//! Tests of the public API: one file per subject.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
#[cfg(feature = "persistence")]
mod kernel_cache;
mod probing;
mod selection;
mod text;
