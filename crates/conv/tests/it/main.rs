//! Tests of the public API.

#[cfg(all(feature = "cube", feature = "autodiff"))]
mod cube;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod fake_quantize;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod layers;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod norm_convolution;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod observed;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod operations;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod pooling;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod residual;
#[cfg(feature = "burn")]
mod slices;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod synchronized;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod timed;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod volumes;
