//! Loops written once and compiled for several sets of instructions.

mod normalize;
mod prefetch;

pub(crate) use normalize::{Affine, append_channels, append_planes, append_values};
pub(crate) use prefetch::prefetch;
