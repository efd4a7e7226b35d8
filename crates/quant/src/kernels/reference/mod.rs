//! The same computations one number after the other, written to be seen to be right.

mod convolution;
mod requantize;

pub use convolution::{convolution_sums, linear_sums};
pub use requantize::{add, code, code_plus, mean};
