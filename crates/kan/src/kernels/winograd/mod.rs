//! Convolutions of images with kernels of three by three by Winograd's algorithm: the values of all
//! functions of a pixel are channels of an ordinary convolution, which needs a quarter of its products.
//!
//! A vector holds one function of neighboring channels, so that the values of a pixel lie side by side:
//! `[pixels][terms][channels of a vector]`. They become the points of tiles, are multiplied there with
//! transformed coefficients, and the products become results, in boxes of tiles that stay in cache.

mod coefficients;
mod forward;
mod input_gradient;
mod memory;
mod plan;
mod space;
mod tiling;
mod weight_gradient;

pub(crate) use forward::forward;
pub(crate) use input_gradient::input_gradient;
pub(crate) use plan::Plan;
pub(crate) use space::Space;
pub(crate) use weight_gradient::weight_gradient;
