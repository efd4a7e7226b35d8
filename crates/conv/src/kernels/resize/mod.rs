//! Interpolation of images and volumes to another size.

mod linear;

pub use linear::Alignment;
#[cfg(feature = "flex")]
pub(crate) use linear::{LinearResize, resize_gradient_into, resize_into};
#[cfg(feature = "cube")]
pub(crate) use linear::{Place, places};
