//! The cost of each kernel for GPUs: its cubes, whose sizes the kernels read here, and the bytes and
//! operations that follow from a layer and a batch.
//!
//! It has the folders and files of `kernels::cube`, and is compiled without CubeCL.

pub(crate) mod bias_gradient;
pub(crate) mod dense;
mod evaluation;
pub(crate) mod expanded;
mod kernel_cost;
mod layer;
mod pass;
pub(crate) mod scaler_gradient;
pub(crate) mod sparse;
pub(crate) mod tensor_cores;
pub(crate) mod tiles;

pub use kernel_cost::{Cubes, KernelCost};
pub(crate) use layer::CubeLayer;
pub(crate) use pass::Pass;
