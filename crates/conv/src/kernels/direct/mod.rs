//! Direct convolution: all products of the definition, in register tiles.

mod by_channel;
mod by_pixel;
mod weight_by_channel;
mod weight_by_pixel;

pub(crate) use by_channel::TileJob;
pub(crate) use by_pixel::LineJob;
pub(crate) use weight_by_channel::WeightJob;
pub(crate) use weight_by_pixel::LineWeightJob;
