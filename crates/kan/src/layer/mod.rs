//! Layers and networks as burn modules.

mod config;
mod conv;
mod conv_config;
mod linear;
mod network;
mod packed;
mod penalty;
mod regrid;

pub use config::{KanConfigError, KanLinearConfig};
pub use conv::{KanConv1d, KanConv2d, KanConv3d};
pub use conv_config::{KanConv1dConfig, KanConv2dConfig, KanConv3dConfig};
pub use linear::KanLinear;
pub use network::{Kan, KanConfig};
pub use packed::{PackedKan, PackedKanLinear};
pub use penalty::Penalty;
