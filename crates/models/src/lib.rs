//! Networks that several tasks share.
#![doc = include_str!("../README.md")]

mod error;
mod outliers;
mod perceptron;
mod separable;

// Depthwise-separable convolutions.
pub use separable::{SeparableConfig, SeparableNet};

// A multilayer perceptron for tables.
pub use perceptron::{Perceptron, PerceptronConfig};

// Errors.
pub use error::{OutlierError, PerceptronConfigError, SeparableConfigError};
