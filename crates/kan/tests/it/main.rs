//! Tests of the public API.

mod bases;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod basis_layers;
mod conv_golden;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod convolutions;
#[cfg(all(feature = "cube", feature = "autodiff", feature = "reference"))]
mod cube;
#[cfg(feature = "flex")]
mod fast_kan;
#[cfg(feature = "flex")]
mod import;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod layers;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod memory;
mod outside;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod penalties;
#[cfg(feature = "burn")]
mod refusals;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod regrid;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod timed;
