//! The crate from the outside: one file a subject.

mod autocast;
mod clip;
mod public_api;
