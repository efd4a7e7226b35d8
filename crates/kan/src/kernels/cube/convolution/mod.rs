//! Convolutions as linear layers: a row is an output pixel of an image, and its numbers are the taps
//! of a group's channels.
//!
//! Kernels of products in f32 read and write the images through `layout`, and compute all groups of
//! channels in a launch. For the other forms patches
//! are gathered into rows, and results put back. A unit writes one number, and sums have a fixed
//! order.

#[cfg(feature = "autodiff")]
mod addition;
#[cfg(feature = "autodiff")]
mod fold;
mod group;
#[cfg(feature = "autodiff")]
mod hit;
mod images;
mod layout;
mod patches;
mod pixels;
mod rows;

#[cfg(feature = "autodiff")]
pub(crate) use addition::add_part;
#[cfg(feature = "autodiff")]
pub(crate) use fold::fold;
pub(super) use group::{images_of_group, share_of_cube};
pub(crate) use images::ConvImages;
pub(super) use images::{ImageSizes, ImageSizesLaunch, no_images};
pub(super) use layout::{Layout, input_at, output_place};
#[cfg(feature = "autodiff")]
pub(super) use layout::{gradient_at, input_place, is_seen};
pub(crate) use patches::gather_patches;
#[cfg(feature = "autodiff")]
pub(crate) use pixels::gather_rows;
pub(crate) use pixels::scatter_rows;
pub(crate) use rows::{Rows, rows_of_part};
