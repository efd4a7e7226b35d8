//! Image classifiers: the dual-pathway network, and one of depthwise-separable convolutions.
#![doc = include_str!("../README.md")]

mod brightness;
mod config;
mod contribution;
mod cost;
mod error;
mod gate;
mod network;
mod outliers;
mod residual;
mod separable;
mod stage;
mod stream;
mod wide;

// The network and its configuration.
pub use config::{Depth, DualPathwayConfig, IntegrationPoint, Normalization};
pub use network::{DualPathwayNet, Pathways};

// A network of one pathway, for small devices.
pub use separable::{SeparableConfig, SeparableNet};

// The second pathway's input.
pub use brightness::{Brightness, LumaStandard};

// What the network applies.
pub use contribution::{Place, StageWeights};

// Errors.
pub use error::{NetworkConfigError, OutlierError};
