//! The dual-pathway network, an image classifier, and its twin of one pathway.
#![doc = include_str!("../README.md")]

mod adaptive;
mod blend;
mod brightness;
mod classifier;
mod config;
mod contribution;
mod contribution_table;
mod cost;
mod error;
mod folded;
mod gate;
mod network;
mod penalty;
mod residual;
mod single;
mod stage;
mod stream;
mod weights;
mod wide;

// The network and its configuration.
pub use config::{Depth, DualPathwayConfig, GateKind, IntegrationPoint, Normalization};
pub use network::{DualPathwayNet, Pathways, PathwaysWithWeights};

// The network for inference.
pub use folded::{FoldOptions, FoldedDualPathway};

// The same blocks in one pathway.
pub use single::{SinglePathwayConfig, SinglePathwayNet};

// The second pathway's input.
pub use brightness::{Brightness, BrightnessKind};

// The weights that the network applies, and penalties on them.
pub use penalty::WeightPenalty;
pub use weights::{Place, PlaceWeights, StageWeights};

// How much each term of an integration adds.
pub use contribution::{Contribution, PlaceContributions, StreamValues};
pub use contribution_table::{ContributionTable, MeanContribution, PlaceMeans};

// Errors.
pub use error::NetworkConfigError;
