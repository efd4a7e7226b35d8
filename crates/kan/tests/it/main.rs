//! What the crate promises, seen from outside.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod layers;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod penalties;
mod refusals;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod regrid;
