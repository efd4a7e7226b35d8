//! The same computations in f64, written to be seen to be right.

mod convolution;
mod pooling;

pub use convolution::{forward, input_gradient, weight_gradient};
pub use pooling::{PoolWindows, average_pool, max_pool};
