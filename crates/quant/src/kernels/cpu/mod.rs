//! The inner loops, generic over the vector, and the vectors.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod depthwise;
mod lines;
mod portable;
mod sink;
mod tile;
mod vector;

pub(crate) use depthwise::ChannelJob;
pub(crate) use lines::{
    Accumulate, Add, Dequantize, Maximum, Multiply, Quantize, Rescale, run as run_line,
};
pub(crate) use sink::{Clamp, Raw, Requantized, Scaled};
pub(crate) use tile::{DotJob, Output};
pub(crate) use vector::LANES;
