//! Bases of splines, evaluated only where they are not zero.

mod bspline;

pub use bspline::local_bases;
