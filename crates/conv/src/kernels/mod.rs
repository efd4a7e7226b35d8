//! Kernels on slices, one folder per algorithm; nothing here depends on burn.

mod bf16;
mod bias;
mod convolution;
#[cfg(any(feature = "cube", feature = "every-kernel"))]
#[cfg_attr(
    not(feature = "cube"),
    allow(dead_code, unused_imports, reason = "only the operations on GPUs use all of it")
)]
pub(crate) mod cube;
mod dense;
mod depthwise;
mod direct;
mod elementwise;
mod geometry;
mod image;
#[cfg(feature = "flex")]
mod join;
#[cfg(feature = "flex")]
mod joined_convolution;
mod norm;
mod packed;
mod packing;
mod plan;
mod pool;
#[cfg(any(test, feature = "reference"))]
#[cfg_attr(
    not(feature = "reference"),
    expect(unreachable_pub, reason = "public with the feature `reference`")
)]
pub mod reference;
#[cfg(feature = "flex")]
mod residual_convolution;
mod resize;
mod sample_end;
mod scratch;
mod strategy;
#[cfg(test)]
mod tests;
mod volume;
mod weight_gradient;
mod winograd;

#[cfg(any(test, feature = "flex"))]
pub(crate) use convolution::forward_into;
pub use convolution::{forward, input_gradient};
#[cfg(feature = "every-kernel")]
pub use cube::every_kernel;
pub use elementwise::{Activation, Slope};
pub use geometry::{Conv3dGeometry, Conv3dShape, ConvGeometry, ConvShape, GeometryError};
pub use norm::{
    BatchNormShape, NormGradients, Normalization, Statistics, batch_norm, batch_norm_gradient,
};
pub use packed::{PackedConvolution, PackedProduct};
pub use resize::Alignment;
pub use scratch::Scratch;
pub use strategy::{Algorithm, Pass, Strategy, strategy};
pub use updraft_simd::Isa;
pub use volume::{forward_3d, input_gradient_3d, weight_gradient_3d};
pub use weight_gradient::weight_gradient;

#[cfg(any(feature = "flex", feature = "cube", feature = "every-kernel"))]
pub(crate) use norm::StatisticsOf;
#[cfg(feature = "cube")]
pub(crate) use resize::{Place, places};

// What only burn's operations need.
#[cfg(feature = "burn")]
pub(crate) use pool::{Divisor, PoolGeometry, PoolShape, Pooling};
#[cfg(feature = "flex")]
pub(crate) use {
    bias::channel_sums,
    convolution::input_gradient_into,
    elementwise::{
        Codes, PIECE, activate_gradient, activate_into, fake_quantize_gradient_into,
        fake_quantize_into, term_gradient_into, weighted_sum_into,
    },
    join::Joining,
    joined_convolution::{forward_joined, forward_joined_3d},
    norm::{
        GradientPass, GroupNormShape, GroupNormalization, NormSource, apply_into,
        group_norm_gradient_into, group_norm_into, moments,
    },
    pool::{pool_gradient_into, pool_into},
    residual_convolution::forward_residual,
    resize::{LinearResize, resize_gradient_into, resize_into},
};
