//! What the crate promises, seen from outside.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod layers;
mod refusals;
