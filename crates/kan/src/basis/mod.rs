//! Bases of splines, evaluated only where they are not zero.

mod bspline;
mod bspline_uniform;

pub use bspline::local_bases;
pub(crate) use bspline_uniform::{LINE, Uniform};
