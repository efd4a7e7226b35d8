//! The kernels as differentiable operations on burn's tensors.

mod convolution;
mod normalization;
mod plain;

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
mod extension;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod listed;

pub use convolution::conv2d;
pub use normalization::{BatchNormOutput, batch_norm_train};
