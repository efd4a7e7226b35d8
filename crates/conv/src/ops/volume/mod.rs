//! Operations of volumes and of networks that shrink and widen images: convolutions in three
//! dimensions, transposed convolutions, group normalization, pooling and interpolation; and
//! convolutions of both ranks next to normalizations.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
mod convolution;
#[cfg(feature = "cube")]
mod cube_resize;
#[cfg(feature = "cube")]
mod cube_stride;
#[cfg(feature = "flex")]
mod extension;
#[cfg(feature = "flex")]
mod flex;
mod group_norm;
#[cfg(feature = "flex")]
pub(crate) mod norm_convolution;
mod pooling;
mod resize;
mod transposed;

pub use convolution::conv3d;
pub(crate) use convolution::convolve_3d;
pub use group_norm::group_norm;
pub(crate) use group_norm::{GroupNorm, group_norm_by};
pub(crate) use pooling::{Window3d, pool_3d};
pub use resize::{resize2d, resize3d};
pub(crate) use transposed::{TransposedPath, transpose_convolve_2d, transpose_convolve_3d};
pub use transposed::{conv_transpose2d, conv_transpose3d};
