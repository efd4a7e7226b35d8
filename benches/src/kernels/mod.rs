//! Kernels of the bench's own: what a machine can do at best.

pub(crate) mod cpu;
