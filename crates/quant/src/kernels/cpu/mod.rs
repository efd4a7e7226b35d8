//! The inner loops, generic over the vector.

mod depthwise;
mod four_bits;
mod lines;
mod pool;
mod sink;
mod table_lookup;
mod tile;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod winograd;
mod winograd_large;

pub(crate) use depthwise::{ChannelJob, Codes};
pub(crate) use four_bits::{FOUR_BIT_BLOCK, FourBitJob, FourBitSteps};
pub(crate) use lines::{Accumulate, Add, Blend, Dequantize, Maximum, Multiply, Quantize, Rescale};
pub(crate) use pool::MaximumAlong;
pub(crate) use sink::{Raw, Requantized, Scaled, Sink, Summed};
pub(crate) use table_lookup::{look_up, look_up_runs};
pub(crate) use tile::DotJob;
pub(crate) use winograd::{MOST_INPUTS, Pairs, WinogradJob, WinogradSpace, transformed_weights};
pub(crate) use winograd_large::{TILE as LARGE_TILE, are_bounded, large_transformed_weights};
