//! Tests of the public API: one file per subject.

mod autocast;
mod clip;
mod limits;
mod norms;
mod scaling;
