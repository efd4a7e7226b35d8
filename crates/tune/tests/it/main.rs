//! What the crate promises, seen from outside.

mod search;
mod studies;
