//! The same computations one number at a time, written as the definitions.

mod convolution;
mod requantize;

pub use convolution::{convolution_sums, linear_sums};
pub use requantize::{add, code, code_plus, mean};
