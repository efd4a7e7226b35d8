//! Normalizations, with a residual addition and an activation fused.

mod batch_norm;
mod columns;
mod gradient_pass;
mod group_norm;
pub(crate) mod plane;
mod row;

#[cfg(any(feature = "flex", feature = "cube", feature = "every-kernel"))]
pub(crate) use batch_norm::StatisticsOf;
pub use batch_norm::{
    BatchNormShape, NormGradients, Normalization, Statistics, batch_norm, batch_norm_gradient,
};
#[cfg(feature = "flex")]
pub(crate) use batch_norm::{apply_into, moments};
#[cfg(feature = "flex")]
pub(crate) use gradient_pass::GradientPass;
#[cfg(feature = "flex")]
pub(crate) use group_norm::{
    GroupNormShape, GroupNormalization, NormSource, group_norm_gradient_into, group_norm_into,
};
