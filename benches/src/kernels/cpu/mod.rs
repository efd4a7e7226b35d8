//! Kernels on the CPU.

pub(crate) mod dot;
pub(crate) mod fma;
