//! Convolutions as linear layers: patches of images are gathered into rows, and results put back.
//!
//! A row is an output pixel of an image, and its numbers are the taps of a group's channels. A unit
//! writes one number, and sums have a fixed order.

#[cfg(feature = "autodiff")]
mod addition;
#[cfg(feature = "autodiff")]
mod fold;
mod images;
mod patches;
mod pixels;
mod rows;

#[cfg(feature = "autodiff")]
pub(crate) use addition::add_part;
#[cfg(feature = "autodiff")]
pub(crate) use fold::fold;
pub(crate) use images::ConvImages;
pub(crate) use patches::gather_patches;
#[cfg(feature = "autodiff")]
pub(crate) use pixels::gather_rows;
pub(crate) use pixels::scatter_rows;
pub(crate) use rows::{Rows, rows_of_part};
