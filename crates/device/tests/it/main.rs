//! The crate from the outside: one file a subject.

mod probing;
mod public_api;
mod selection;
mod text;
