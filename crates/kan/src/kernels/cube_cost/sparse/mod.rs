//! The cost of the sparse kernels.

pub(crate) mod forward;
pub(crate) mod input_gradient;
pub(crate) mod weight_gradient;
