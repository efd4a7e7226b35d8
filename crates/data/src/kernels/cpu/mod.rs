//! Loops that are compiled for several instruction sets.

mod byte_masks;
mod normalize;
mod prefetch;

pub(crate) use byte_masks::{ByteMasks, MASKED_BYTES, byte_masks};
pub(crate) use normalize::{Affine, append_channels, append_planes, append_values};
pub(crate) use prefetch::prefetch;
