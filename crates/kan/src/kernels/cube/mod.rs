//! A layer's passes as kernels for GPUs, in CubeCL, which compiles them for the device.
//!
//! They compute what `kernels::cpu` does, in f32, and do not depend on burn. A unit adds its numbers
//! in a fixed order and no two units add to the same number, so that results are the same to the bit
//! on every run.

#[cfg(feature = "autodiff")]
mod bias_gradient;
mod buffers;
mod forward;
mod function;
#[cfg(feature = "autodiff")]
mod input_gradient;
mod layer;
mod position;
#[cfg(feature = "autodiff")]
mod scaler_gradient;
mod tiles;
mod weight;
#[cfg(feature = "autodiff")]
mod weight_gradient;

#[cfg(feature = "autodiff")]
pub(crate) use bias_gradient::bias_gradient;
pub(crate) use buffers::{Inputs, Sizes};
pub(crate) use forward::forward;
#[cfg(feature = "autodiff")]
pub(crate) use input_gradient::input_gradient;
pub(crate) use layer::CubeLayer;
#[cfg(feature = "autodiff")]
pub(crate) use scaler_gradient::scaler_gradient;
pub(crate) use tiles::run_on;
#[cfg(feature = "autodiff")]
pub(crate) use weight_gradient::{WeightGradients, weight_gradient};
