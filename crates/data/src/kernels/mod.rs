//! Kernels on slices, with the vector instructions of the processor.

mod cpu;

pub(crate) use cpu::{
    Affine, ByteMasks, MASKED_BYTES, append_channels, append_planes, append_values, byte_masks,
    prefetch,
};
