//! Loops on bare slices, with the vector instructions that the processor has.

mod cpu;
mod path;

pub(crate) use cpu::{Affine, append_channels, append_planes, append_values, prefetch};
pub(crate) use path::Path;
