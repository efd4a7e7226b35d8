//! Tests of the public API: one file per subject.

mod probing;
mod selection;
mod text;
