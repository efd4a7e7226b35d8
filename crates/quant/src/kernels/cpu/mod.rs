//! The inner loops, generic over the vector, and the vectors.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
mod depthwise;
mod lines;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot;
mod portable;
#[cfg(target_arch = "aarch64")]
mod quarters;
mod sink;
mod tile;
mod vector;
#[cfg(target_arch = "x86_64")]
mod ymm;

pub(crate) use depthwise::{ChannelJob, Codes};
pub(crate) use lines::{
    Accumulate, Add, Blend, Dequantize, Maximum, Multiply, Quantize, Rescale, run as run_line,
};
pub(crate) use sink::{Clamp, Plus, Raw, Requantized, Scaled, Summed};
pub(crate) use tile::{DotJob, Output};
pub(crate) use vector::LANES;
