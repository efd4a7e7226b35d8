//! The commands on a GPU of this build, beside the CPU.

mod commands;
mod device;
#[cfg(feature = "autotune")]
mod kernel_choices;
mod networks;
mod precision;
mod predictions;
mod searches;
