//! Kernels on bare slices; nothing here knows burn.

mod batch_norm;
mod convolution;
mod cpu;
mod geometry;
mod parallel;
mod path;
mod plan;
#[cfg(any(test, feature = "reference"))]
#[cfg_attr(
    not(feature = "reference"),
    expect(unreachable_pub, reason = "public with the feature `reference`")
)]
pub mod reference;
mod scratch;

pub use batch_norm::{
    Activation, BatchNormShape, NormGradients, Normalization, Statistics, batch_norm,
    batch_norm_gradient,
};
pub use convolution::{forward, input_gradient, weight_gradient};
pub use geometry::{ConvGeometry, ConvShape, GeometryError};
pub use path::Path;
pub use scratch::Scratch;
