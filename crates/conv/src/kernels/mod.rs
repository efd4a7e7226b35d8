//! Kernels on bare slices, a folder an algorithm; nothing here knows burn.

mod bias;
mod convolution;
mod depthwise;
mod direct;
mod elementwise;
#[cfg(any(test, feature = "flex"))]
mod fresh;
mod geometry;
mod image;
mod norm;
mod packing;
mod plan;
mod pool;
#[cfg(any(test, feature = "reference"))]
#[cfg_attr(
    not(feature = "reference"),
    expect(unreachable_pub, reason = "public with the feature `reference`")
)]
pub mod reference;
mod scratch;
mod strategy;
#[cfg(test)]
mod tests;
mod weight_gradient;
mod winograd;

pub use bias::bias_gradient;
pub use convolution::{forward, forward_activated, input_gradient};
pub use elementwise::{Activation, activate, activate_gradient};
pub use geometry::{ConvGeometry, ConvShape, GeometryError};
pub use norm::{
    BatchNormShape, NormGradients, Normalization, Statistics, batch_norm, batch_norm_gradient,
    batch_norm_inference, batch_norm_inference_gradient,
};
pub use pool::{Divisor, PoolGeometry, PoolShape, Pooling, pool, pool_gradient};
pub use scratch::Scratch;
pub use strategy::{Algorithm, Pass, Strategy, strategy};
pub use updraft_simd::Isa;
pub use weight_gradient::weight_gradient;

// What burn's operations need beside: results in new vectors.
#[cfg(feature = "flex")]
pub(crate) use {
    convolution::{forward_into, input_gradient_into},
    elementwise::{
        PIECE, activate_gradient_into, activate_into, term_gradient_into, weighted_sum_into,
    },
    fresh::{Fresh, fresh},
    norm::{GradientPass, StatisticsOf, apply_into, moments},
    pool::{pool_gradient_into, pool_into},
};
