//! The same computations in f64, written to be seen to be right.

mod convolution;

pub use convolution::{forward, input_gradient, weight_gradient};
