#![doc = include_str!("../README.md")]

mod attempt;
mod cast;
mod clip;
#[cfg(feature = "cube")]
mod cube_gradient_parts;
mod device_loss_scale;
mod device_norm;
mod error;
mod finite;
mod islands;
#[cfg(any(feature = "flex", feature = "cube", feature = "every-kernel"))]
mod kernels;
mod loss_scale;
mod norm_reason;
#[cfg(any(feature = "flex", feature = "cube"))]
mod ops;
mod parity;
mod policy;
mod ssim;
mod text;
mod unit;
mod unscale;

// The three dtypes, and what products multiply.
pub use policy::{Arithmetic, Policy};
pub use updraft_simd::Products;

// The parts that stay in f32.
pub use islands::{Islands, Norm, islands, norms};

// Gradients.
pub use attempt::attempt;
pub use clip::{clip_global_norm, norm_of, square_sums};
pub use finite::first_non_finite;
pub use loss_scale::{DynamicScale, LossScale, LossScaleState, LossScaler};
pub use unscale::Unscaled;

// The same decided on the device.
pub use device_loss_scale::DeviceLossScale;
pub use device_norm::{DeviceNorm, device_norm};
pub use norm_reason::{NormReason, norm_reason};

// Two results compared.
pub use parity::{Parity, ParitySums};
pub use ssim::ssim;

// The kernels for GPUs, for programs that compile them without a card.
#[cfg(feature = "every-kernel")]
pub use kernels::every_kernel;

// Errors.
pub use error::PrecisionError;
