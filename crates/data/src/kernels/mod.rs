//! Kernels on slices, with the vector instructions of the processor.

mod cpu;

pub(crate) use cpu::{Affine, append_channels, append_planes, append_values, prefetch};
