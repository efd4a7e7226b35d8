//! Depthwise convolutions.

mod by_channel;
mod by_pixel;
mod channel_tile;
mod frame;
mod pixel_tile;
mod pixel_weight_tile;

pub(crate) use by_channel::Depthwise;
pub(crate) use by_pixel::Planes;
