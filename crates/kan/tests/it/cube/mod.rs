//! The kernels for GPUs, on every device that is found.

mod case;
mod launches;
mod memory;
mod non_finite;
mod operation;
mod path;
mod reference;
