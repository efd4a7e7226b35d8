//! Layers of functions in closed form: the functions of some rows and inputs are evaluated into a
//! panel that stays in cache, then multiplied with packed weights.

mod backward;
mod chunk;
mod conv;
mod forward;
mod function;
mod layer;
mod memory;
mod panel;
mod pixels;
mod plan;
mod scratch;
#[cfg(test)]
mod tests;
mod weights;

pub(crate) use backward::dense_backward;
pub(crate) use conv::{DenseConv, dense_conv_backward, dense_conv_forward};
pub(crate) use forward::dense_forward;
pub(crate) use layer::{DenseGradients, DenseInput, DenseLayer, DenseWeights};
pub(crate) use scratch::DenseScratch;
