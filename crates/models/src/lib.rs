//! Networks that several tasks share.
#![doc = include_str!("../README.md")]

mod draw;
mod error;
mod outliers;
mod perceptron;
mod separable;
mod table;
mod unet;

// Depthwise-separable convolutions.
pub use separable::{SeparableConfig, SeparableNet};

// A multilayer perceptron for tables.
pub use perceptron::{Perceptron, PerceptronConfig};

// Networks for tables, with a head for each target.
pub use table::{
    Head, InteractionConfig, InteractionNet, RowFeatures, TableNet, TableNetConfig, Trunk,
};

// U-Nets of images and volumes.
pub use unet::{
    Downsampling, SpatialLayers, UNet, UNet2d, UNet3d, UNetBlock, UNetConfig, UNetFlow,
    UNetNormalization, Upsampling,
};

// Errors.
pub use error::{
    OutlierError, PerceptronConfigError, SeparableConfigError, TableNetConfigError, UNetConfigError,
};
