//! Moving the pixels of one raster: loops on slices, one kind of movement per file.

mod crop;
mod flip;
mod remap;
mod shift;
mod transpose;

pub use crop::Crop;
pub use flip::Axis;

pub(super) use crop::{crop_nearest, crop_resized};
pub(super) use flip::flip;
pub(super) use remap::{remap, remap_nearest};
pub(super) use shift::shift;
pub(super) use transpose::transpose;
