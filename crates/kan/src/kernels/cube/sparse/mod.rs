//! The passes of a layer by the few bases that are not zero at an input.

mod forward;
#[cfg(feature = "autodiff")]
mod input_gradient;
#[cfg(feature = "autodiff")]
mod weight_gradient;

pub(super) use forward::forward;
#[cfg(feature = "autodiff")]
pub(super) use input_gradient::input_gradient;
#[cfg(feature = "autodiff")]
pub(super) use weight_gradient::weight_gradient;
