//! The crate from the outside: one file a subject.

mod probing;
mod selection;
mod text;
