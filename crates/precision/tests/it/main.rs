//! The crate from the outside: one file a subject.

mod autocast;
mod clip;
mod limits;
mod norms;
mod scaling;
