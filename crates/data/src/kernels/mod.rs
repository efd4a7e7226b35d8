//! Loops on bare slices, with the vector instructions that the processor has.

mod cpu;

pub(crate) use cpu::{Affine, append_channels, append_planes, append_values, prefetch};
