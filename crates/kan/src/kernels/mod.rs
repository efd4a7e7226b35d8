//! Kernels on slices, which do not depend on burn.

mod activation;
mod backward;
mod bf16;
mod coefficients;
mod conv;
mod cpu;
#[cfg(any(feature = "cube", feature = "every-kernel"))]
pub(crate) mod cube;
pub(crate) mod cube_cost;
mod cube_form;
#[cfg(any(test, feature = "flex"))]
mod dense;
mod forward;
mod geometry;
mod memory;
mod packed;
mod pixel_functions;
mod quantized;
#[cfg(any(test, feature = "reference"))]
#[cfg_attr(
    not(feature = "reference"),
    expect(unreachable_pub, reason = "public with the feature `reference`")
)]
pub mod reference;
mod scratch;
#[cfg(test)]
mod tests;
mod winograd;

pub use activation::Activation;
pub use backward::backward;
#[cfg(any(feature = "flex", feature = "cube", feature = "every-kernel"))]
pub(crate) use conv::Shapes;
pub use conv::{BaseBranch, ConvAxis, ConvError, ConvGeometry, conv_backward, conv_forward};
#[cfg(feature = "every-kernel")]
pub use cube::every_kernel;
pub use cube_form::CubeForm;
#[cfg(feature = "flex")]
pub(crate) use dense::{
    DenseConv, DenseGradients, DenseInput, DenseLayer, DenseScratch, DenseWeights, dense_backward,
    dense_conv_backward, dense_conv_forward, dense_forward,
};
pub use forward::{evaluate, forward};
pub use geometry::{Gradients, LayerError, LayerGeometry, Weights};
#[cfg(feature = "burn")]
pub(crate) use memory::BasisParts;
pub use memory::LayerMemory;
pub use packed::PackedLayer;
pub use quantized::{QuantizeError, QuantizedLayer, QuantizedScratch};
pub use scratch::Scratch;
pub use updraft_simd::Isa;
