//! The crate from the outside: one file a subject.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod small;

mod checkpoint;
mod evaluate;
mod lr_find;
mod mixed;
mod public_api;
mod recompute;
mod run;
mod served;
mod step;
mod values;
