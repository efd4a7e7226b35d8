//! The kernels for GPUs, on every device that is found.

mod case;
mod convolution;
mod launches;
mod memory;
mod non_finite;
mod operation;
mod path;
mod recursion;
mod reference;
#[cfg(feature = "tracing")]
mod report;
#[cfg(feature = "autotune")]
mod tuned;
