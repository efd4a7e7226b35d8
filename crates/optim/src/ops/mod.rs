//! The kernels as operations on burn's tensors.

#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "cube")]
mod cube_controlled;
#[cfg(any(feature = "flex", feature = "cube"))]
mod extension;
#[cfg(feature = "flex")]
mod flex;
#[cfg(any(feature = "flex", feature = "cube"))]
mod fused;
mod listed;

#[cfg(feature = "cube")]
pub(crate) use cube_controlled::{
    adamw_control, adamw_controlled, sgd_controlled, sgd_with_momentum_controlled,
};
#[cfg(any(feature = "flex", feature = "cube"))]
pub(crate) use fused::{adamw, sgd, sgd_with_momentum};
#[cfg(feature = "cube")]
pub(crate) use listed::Kernels;
pub(crate) use listed::kernels_of;
