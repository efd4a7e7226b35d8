//! Bases of splines, evaluated only where they are not zero, and other functions in closed form.

mod bspline;
mod centers;
mod chebyshev;
mod family;
mod fourier;
mod gaussian;
mod kind;
mod legendre;
mod mexican_hat;
mod number;
mod rational;
mod rswaf;

pub use bspline::local_bases;
pub use centers::Centers;
pub use kind::{Basis, BasisError};
#[cfg(feature = "burn")]
pub(crate) use number::Number;
