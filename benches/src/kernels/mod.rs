//! Kernels of the benchmarks, which measure a machine's peak.

pub(crate) mod cpu;
