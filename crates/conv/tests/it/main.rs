//! Tests of the public API.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod beside;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod layers;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod observed;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod operations;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod pooling;
#[cfg(feature = "burn")]
mod slices;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod volumes;
