//! Kernels on bare slices; nothing here knows burn.

mod activation;
mod batch_norm;
mod bias;
mod convolution;
mod cpu;
mod depthwise;
mod geometry;
mod packing;
mod plan;
mod planes;
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
mod weighted_sum;
mod winograd;

pub use activation::{Activation, activate, activate_gradient};
pub use batch_norm::{
    BatchNormShape, NormGradients, Normalization, Statistics, batch_norm, batch_norm_gradient,
    batch_norm_inference, batch_norm_inference_gradient,
};
pub use bias::bias_gradient;
pub use convolution::{forward, forward_activated, input_gradient};
pub use geometry::{ConvGeometry, ConvShape, GeometryError};
pub use pool::{Divisor, PoolGeometry, PoolShape, Pooling, pool, pool_gradient};
pub use scratch::Scratch;
pub use strategy::{Algorithm, Pass, Strategy, strategy};
pub use updraft_simd::Isa;
pub use weight_gradient::weight_gradient;
pub use weighted_sum::{weighted_sum, weighted_sum_gradient};

// What burn's operations need beside: results in new vectors.
#[cfg(feature = "flex")]
pub(crate) use {
    activation::{PIECE, activate_gradient_into, activate_into},
    batch_norm::{GradientPass, StatisticsOf, apply_into, moments},
    convolution::{forward_into, input_gradient_into},
    cpu::{Fresh, fresh},
    pool::{pool_gradient_into, pool_into},
    weighted_sum::{term_gradient_into, weighted_sum_into},
};
