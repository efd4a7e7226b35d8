//! The dual-pathway network, an image classifier, and its twin of one pathway.
#![doc = include_str!("../README.md")]

mod brightness;
mod classifier;
mod config;
mod contribution;
mod cost;
mod error;
mod gate;
mod network;
mod residual;
mod single;
mod stage;
mod stream;
mod wide;

// The network and its configuration.
pub use config::{Depth, DualPathwayConfig, IntegrationPoint, Normalization};
pub use network::{DualPathwayNet, Pathways};

// The same blocks in one pathway.
pub use single::{SinglePathwayConfig, SinglePathwayNet};

// The second pathway's input.
pub use brightness::{Brightness, BrightnessKind};

// What the network applies.
pub use contribution::{Place, StageWeights};

// Errors.
pub use error::NetworkConfigError;
