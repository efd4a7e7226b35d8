//! Interpolation of images and volumes to another size.

mod linear;

pub use linear::{Alignment, LinearResize, resize, resize_gradient};
#[cfg(feature = "flex")]
pub(crate) use linear::{resize_gradient_into, resize_into};
