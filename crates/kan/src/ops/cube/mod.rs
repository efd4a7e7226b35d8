//! Our operations on burn's backend for GPUs.

mod convolution;
mod expanded;
mod linear;
mod operation;
mod pass;
#[cfg(feature = "autotune")]
mod tune;
