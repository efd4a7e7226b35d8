//! Layers and networks as burn modules.

mod basis_conv;
mod basis_error;
mod basis_linear;
mod basis_memory;
mod basis_network;
mod config;
mod conv;
mod conv_config;
mod linear;
mod network;
mod packed;
mod penalty;
mod regrid;

pub use basis_conv::{
    BasisConv1d, BasisConv1dConfig, BasisConv2d, BasisConv2dConfig, BasisConv3d, BasisConv3dConfig,
};
pub use basis_error::BasisConfigError;
pub use basis_linear::{BasisLinear, BasisLinearConfig};
pub use basis_network::{BasisKan, BasisKanConfig};
pub use config::{KanConfigError, KanLinearConfig};
pub use conv::{KanConv1d, KanConv2d, KanConv3d};
pub use conv_config::{KanConv1dConfig, KanConv2dConfig, KanConv3dConfig};
pub use linear::KanLinear;
pub use network::{Kan, KanConfig};
pub use packed::{PackedKan, PackedKanLinear};
pub use penalty::Penalty;
