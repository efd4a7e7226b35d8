//! The load of an NVIDIA card while a run trains, and what it waits for.

mod idle;
mod monitor;
mod sums;

pub(crate) use monitor::{GpuLoad, GpuSummary};
