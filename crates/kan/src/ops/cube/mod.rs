//! Kernels on burn's tensors on GPUs: passes of layers and their choice, and burn's traits.

mod convolution;
mod expanded;
mod linear;
#[cfg(all(test, feature = "autodiff", feature = "wgpu"))]
mod measured_cost;
mod operation;
mod pass;
#[cfg(feature = "autotune")]
mod tune;
