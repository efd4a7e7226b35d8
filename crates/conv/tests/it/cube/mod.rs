//! The kernels of batch norms for GPUs, on every device that is found.

mod case;
mod launches;
mod narrow;
mod non_finite;
mod operation;
mod path;
mod reference;
