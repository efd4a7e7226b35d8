//! Convolutions of volumes: sums over depth of the sums over images.

mod passes;
mod plan;
#[cfg(test)]
mod tests;
mod weight_gradient;

pub use passes::{forward_3d, input_gradient_3d};
pub(crate) use plan::Plan;
pub use weight_gradient::weight_gradient_3d;
