//! What the crate promises, seen from outside.

mod folders;
mod inheriting;
mod plans;
mod refusals;
mod train;
mod trained;
mod unknown_keys;
