//! What runs on GPUs, on every device that is found: the kernels of batch norms, and operations that
//! are not burn's own there.

mod case;
mod launches;
mod narrow;
mod non_finite;
mod operation;
mod path;
mod reference;
mod resize;
mod stride;
