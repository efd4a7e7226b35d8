//! A layer's passes as kernels for GPUs, in CubeCL, which compiles them for the device.
//!
//! They compute what `kernels::cpu` does, in f32 but for the products of tensor cores, and do not
//! depend on burn. A unit adds its numbers
//! in a fixed order and no two units add to the same number, so that results are the same to the bit
//! on every run.

#[cfg(feature = "autodiff")]
mod bias_gradient;
mod buffers;
mod choice;
mod convolution;
mod dense;
#[cfg(feature = "every-kernel")]
mod every_kernel;
mod expanded;
mod function;
mod layer;
mod position;
mod recursion;
#[cfg(feature = "autodiff")]
mod scaler_gradient;
mod sparse;
mod tensor_cores;
mod tiles;
mod values;
mod weight;

#[cfg(feature = "autodiff")]
pub(crate) use bias_gradient::bias_gradient;
#[cfg(feature = "autodiff")]
pub(crate) use buffers::WeightGradients;
pub(crate) use buffers::{Inputs, Sizes};
#[cfg(any(feature = "autotune", all(test, feature = "autodiff", feature = "wgpu")))]
pub(crate) use choice::is_available;
pub(crate) use choice::{chosen, forward, packed_len};
#[cfg(feature = "autodiff")]
pub(crate) use choice::{input_gradient, weight_gradient};
pub(crate) use convolution::{ConvImages, Rows, gather_patches, rows_of_part, scatter_rows};
#[cfg(feature = "autodiff")]
pub(crate) use convolution::{add_part, fold, gather_rows};
#[cfg(feature = "every-kernel")]
pub use every_kernel::every_kernel;
pub(crate) use expanded::{Part, add_bias, pack_weights, write_bases};
#[cfg(feature = "autodiff")]
pub(crate) use expanded::{contract, unpack_gradients};
pub(crate) use layer::{CubeLayer, LayerGrid, input_knots};
#[cfg(feature = "autodiff")]
pub(crate) use scaler_gradient::scaler_gradient;
pub(crate) use tiles::run_on;
