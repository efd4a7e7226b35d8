//! Element-wise kernels: activations, fake quantization and weighted sums.

mod activation;
#[cfg(any(test, feature = "flex"))]
mod fake_quantize;
pub(crate) mod function;
mod weighted_sum;

pub use activation::{Activation, Slope};
#[cfg(feature = "flex")]
pub(crate) use activation::{PIECE, activate_gradient, activate_into};
#[cfg(feature = "flex")]
pub(crate) use fake_quantize::{Codes, fake_quantize_gradient_into, fake_quantize_into};
#[cfg(feature = "flex")]
pub(crate) use weighted_sum::{term_gradient_into, weighted_sum_into};
