//! Tests of the public API: one file per subject.

mod adapters;
mod probing;
mod selection;
mod text;
