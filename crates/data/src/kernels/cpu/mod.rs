//! Loops that are compiled for several instruction sets.

mod normalize;
mod prefetch;

pub(crate) use normalize::{Affine, append_channels, append_planes, append_values};
pub(crate) use prefetch::prefetch;
