//! Convolutions of splines on slices: every tap of every filter is a learned spline.

mod backward;
mod error;
mod forward;
mod geometry;
mod line;
mod memory;
mod pass;
#[cfg(test)]
mod tests;
mod view;

#[cfg(any(test, feature = "flex"))]
pub(crate) use backward::sum_pixels;
pub use error::ConvError;
pub(crate) use geometry::Shapes;
pub use geometry::{BaseBranch, ConvAxis, ConvGeometry};
pub(crate) use line::{LINE, Lines, Pixels};
pub use pass::{conv_backward, conv_forward};
pub(crate) use view::{PLANE, Part, View};
