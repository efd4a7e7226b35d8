//! Convolutions of volumes: sums over depth of the sums over images.

mod geometry;
mod passes;
mod plan;
mod strategy;
#[cfg(test)]
mod tests;
mod weight_gradient;

pub use geometry::{Conv3dGeometry, Conv3dShape};
pub use passes::{forward_3d, input_gradient_3d};
pub(crate) use plan::Plan;
pub use strategy::strategy_3d;
pub use weight_gradient::weight_gradient_3d;
