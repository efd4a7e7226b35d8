//! Element-wise kernels: activations and weighted sums.

mod activation;
pub(crate) mod function;
mod weighted_sum;

pub use activation::{Activation, Slope};
#[cfg(feature = "flex")]
pub(crate) use activation::{PIECE, activate_gradient_into, activate_into};
#[cfg(feature = "flex")]
pub(crate) use weighted_sum::{term_gradient_into, weighted_sum_into};
