//! The dual-pathway network, an image classifier.
#![doc = include_str!("../README.md")]

mod brightness;
mod config;
mod contribution;
mod cost;
mod error;
mod gate;
mod network;
mod residual;
mod stage;
mod stream;
mod wide;

// The network and its configuration.
pub use config::{Depth, DualPathwayConfig, IntegrationPoint, Normalization};
pub use network::{DualPathwayNet, Pathways};

// The second pathway's input.
pub use brightness::{Brightness, LumaStandard};

// What the network applies.
pub use contribution::{Place, StageWeights};

// Errors.
pub use error::NetworkConfigError;
