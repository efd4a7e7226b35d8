//! Convolutions of functions in closed form: the functions of the pixels that a block of outputs sees
//! are evaluated once, into lines that stay in cache; each tap is a product with the lines from
//! another place on.

mod backward;
mod chunk;
mod forward;
mod plan;
mod region;
mod sizes;
#[cfg(test)]
mod tests;

pub(crate) use backward::dense_conv_backward;
pub(crate) use forward::dense_conv_forward;
pub(crate) use plan::DenseConv;
pub(super) use sizes::Sizes;
