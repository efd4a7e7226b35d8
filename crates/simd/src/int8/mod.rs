//! Vectors for int8 arithmetic: a trait, and one implementation for each instruction set.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx_vnni;
#[cfg(target_arch = "x86_64")]
mod halves;
mod lanes;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot;
mod portable;
#[cfg(target_arch = "aarch64")]
mod quarters;
mod requantize;
mod run;
#[cfg(target_arch = "x86_64")]
mod tiles;

#[cfg(target_arch = "x86_64")]
pub use avx_vnni::AvxVnni;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512Vnni;
pub use lanes::{INT8_LANES, Int8};
#[cfg(target_arch = "aarch64")]
pub use neon_dot::NeonDot;
pub use requantize::{Clamp, Plus};
pub use run::{Int8Kernel, Int8Vectors};
#[cfg(target_arch = "x86_64")]
pub use tiles::{ByteTiles, TileRegisters, TileRows, TileSums};
