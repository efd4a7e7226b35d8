//! Kernels on slices, one folder per algorithm; nothing here depends on burn.

mod bias;
mod convolution;
mod depthwise;
mod direct;
mod elementwise;
mod geometry;
mod image;
mod norm;
#[cfg(any(test, feature = "flex"))]
mod output;
mod packing;
mod plan;
mod pool;
#[cfg(any(test, feature = "reference"))]
#[cfg_attr(
    not(feature = "reference"),
    expect(unreachable_pub, reason = "public with the feature `reference`")
)]
pub mod reference;
mod resize;
mod scratch;
mod strategy;
#[cfg(test)]
mod tests;
mod volume;
mod weight_gradient;
mod winograd;

pub use bias::bias_gradient;
pub use convolution::{forward, forward_activated, input_gradient};
pub use elementwise::{Activation, Slope, activate, activate_gradient};
pub use geometry::{ConvGeometry, ConvShape, GeometryError};
pub use norm::{
    BatchNormShape, GroupNormShape, GroupNormalization, NormGradients, Normalization, Statistics,
    batch_norm, batch_norm_gradient, batch_norm_inference, batch_norm_inference_gradient,
    group_norm, group_norm_gradient,
};
pub use pool::{
    Divisor, Pool3dGeometry, Pool3dShape, PoolGeometry, PoolShape, Pooling, pool, pool_3d,
    pool_3d_gradient, pool_gradient,
};
pub use resize::{Alignment, LinearResize, resize, resize_gradient};
pub use scratch::Scratch;
pub use strategy::{Algorithm, Pass, Strategy, strategy};
pub use updraft_simd::Isa;
pub use volume::{
    Conv3dGeometry, Conv3dShape, forward_3d, input_gradient_3d, strategy_3d, weight_gradient_3d,
};
pub use weight_gradient::weight_gradient;

// For burn's operations: results in new vectors.
#[cfg(feature = "flex")]
pub(crate) use {
    bias::channel_sums,
    convolution::{forward_into, input_gradient_into},
    elementwise::{
        PIECE, activate_gradient_into, activate_into, term_gradient_into, weighted_sum_into,
    },
    norm::{
        GradientPass, StatisticsOf, apply_into, group_norm_gradient_into, group_norm_into, moments,
    },
    output::{Uninitialized, fill_in_pieces},
    pool::{pool_3d_gradient_into, pool_3d_into, pool_gradient_into, pool_into},
    resize::{resize_gradient_into, resize_into},
};
