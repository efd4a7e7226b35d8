//! The same computations in f64, written as the definitions.

mod convolution;
#[cfg(test)]
mod pooling;
mod volume;

pub use convolution::{forward, input_gradient, weight_gradient};
#[cfg(test)]
pub(crate) use pooling::{PoolWindows, average_pool, max_pool};
pub use volume::{forward_3d, input_gradient_3d, weight_gradient_3d};
