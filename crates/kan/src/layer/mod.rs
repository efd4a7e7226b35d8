//! Layers and networks as burn modules.

mod config;
mod linear;
mod network;
mod packed;
mod penalty;
mod regrid;

pub use config::{KanConfigError, KanLinearConfig};
pub use linear::KanLinear;
pub use network::{Kan, KanConfig};
pub use packed::{PackedKan, PackedKanLinear};
pub use penalty::Penalty;
