//! Winograd's algorithm: windows of three by three with a quarter of the products.

mod image;
mod tiles;
mod volume;

pub(crate) use image::Winograd;
pub(crate) use volume::VolumeWinograd;
