//! Networks that several tasks share.
#![doc = include_str!("../README.md")]

mod error;
mod outliers;
mod perceptron;
mod separable;
mod table;

// Depthwise-separable convolutions.
pub use separable::{SeparableConfig, SeparableNet};

// A multilayer perceptron for tables.
pub use perceptron::{Perceptron, PerceptronConfig};

// Networks for tables, with a head for each target.
pub use table::{
    Head, InteractionConfig, InteractionNet, RowFeatures, SplineNet, SplineNetConfig, TableNet,
    TableNetConfig, Trunk,
};

// Errors.
pub use error::{OutlierError, PerceptronConfigError, SeparableConfigError, TableNetConfigError};
