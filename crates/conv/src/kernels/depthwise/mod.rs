//! Depthwise convolutions.

mod by_channel;
mod by_pixel;
mod channel_tile;
mod pixel_tile;

pub(crate) use by_channel::Depthwise;
pub(crate) use by_pixel::Planes;
