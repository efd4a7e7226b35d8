//! The kernels as differentiable operations on burn's tensors.

mod activation;
#[cfg(any(feature = "flex", feature = "cube"))]
mod batch_norm;
mod convolution;
mod fake_quantize;
mod join;
mod normalization;
mod observe;
mod path;
mod plain;
mod pooling;
mod reason;
mod residual_convolution;
mod synchronized;
mod volume;
mod weighted_sum;

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
mod extension;
#[cfg(feature = "flex")]
mod flex;
#[cfg(all(any(feature = "flex", feature = "cube"), feature = "autodiff"))]
mod graph;
#[cfg(all(any(feature = "flex", feature = "cube"), feature = "autodiff"))]
mod in_layer;
#[cfg(any(feature = "flex", feature = "cube"))]
mod listed;
#[cfg(feature = "flex")]
mod memory;
#[cfg(any(feature = "flex", feature = "cube"))]
mod operand;

pub use activation::activate;
pub use convolution::conv2d;
pub(crate) use convolution::{Convolving, convolve};
pub use fake_quantize::fake_quantize;
pub use join::join_channels;
#[cfg(feature = "cube")]
pub(crate) use normalization::stored_on_gpus;
pub use normalization::{BatchNormOutput, batch_norm_train};
pub(crate) use normalization::{Normalizing, normalize, wide};
pub(crate) use observe::of_layer;
pub use observe::{ObservedConvolution, observe_convolutions};
pub use path::LayerPath;
pub(crate) use pooling::{Window, adaptive_average_pool, average_pool, max_pool};
pub use reason::PlainReason;
pub(crate) use residual_convolution::convolve_residual;
pub use synchronized::{Gather, synchronize_batch_norms};
#[cfg(feature = "flex")]
pub(crate) use volume::norm_convolution;
pub(crate) use volume::{
    GroupNorm, TransposedPath, Window3d, convolve_3d, group_norm_by, pool_3d,
    transpose_convolve_2d, transpose_convolve_3d,
};
pub use volume::{conv_transpose2d, conv_transpose3d, conv3d, group_norm, resize2d, resize3d};
pub use weighted_sum::weighted_sum;
