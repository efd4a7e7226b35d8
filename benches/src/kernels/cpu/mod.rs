//! Kernels on the CPU.

pub(crate) mod dot;
