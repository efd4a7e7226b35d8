//! What the crate promises, seen from outside.

mod folders;
mod inheriting;
mod plans;
mod public_api;
mod refusals;
mod train;
mod trained;
