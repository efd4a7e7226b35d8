//! Int8 kernels: one source, compiled for every instruction set with int8 dot products.

use super::lanes::Int8;
#[cfg(target_arch = "aarch64")]
use super::neon_dot::NeonDot;
#[cfg(target_arch = "x86_64")]
use super::{avx_vnni::AvxVnni, avx512::Avx512Vnni};
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::vector::Avx2;
#[cfg(target_arch = "aarch64")]
use crate::vector::Neon;
use crate::vector::Portable;

/// A computation that is written once for all [`Int8`] vectors.
pub trait Int8Kernel {
    /// The result.
    type Output;

    /// Runs the computation. This function and all functions that it calls must be
    /// `#[inline(always)]`.
    fn run<S: Int8>(self, simd: S) -> Self::Output;
}

/// Vectors for int8 arithmetic that this CPU supports; [`Isa::int8_vectors`] checks this.
#[derive(Debug, Clone, Copy)]
pub enum Int8Vectors {
    /// Portable Rust.
    Portable(Portable),
    /// NEON, four registers.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    /// NEON with `sdot`, four registers.
    #[cfg(target_arch = "aarch64")]
    NeonDot(NeonDot),
    /// AVX2, two registers.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-VNNI, two registers.
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni),
    /// AVX-512 VNNI, one register.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni),
}

impl Isa {
    /// The vectors for int8 arithmetic on this instruction set; tiles are not among them.
    ///
    /// # Panics
    /// If this CPU does not have the instruction set.
    #[must_use]
    pub fn int8_vectors(self) -> Int8Vectors {
        let vectors = if self.is_available() {
            match self.dot() {
                #[cfg(target_arch = "aarch64")]
                Self::Neon => Neon::detect().map(Int8Vectors::Neon),
                #[cfg(target_arch = "aarch64")]
                Self::NeonDot => NeonDot::detect().map(Int8Vectors::NeonDot),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => Avx2::detect().map(Int8Vectors::Avx2),
                #[cfg(target_arch = "x86_64")]
                Self::AvxVnni => AvxVnni::detect().map(Int8Vectors::AvxVnni),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512Vnni | Self::AmxInt8 => {
                    Avx512Vnni::detect().map(Int8Vectors::Avx512Vnni)
                }
                _ => Some(Int8Vectors::Portable(Portable)),
            }
        } else {
            None
        };
        vectors.unwrap_or_else(|| panic!("this CPU has no {self}"))
    }
}

impl Int8Vectors {
    /// Runs a kernel with these vectors.
    #[inline]
    pub fn run<K: Int8Kernel>(self, kernel: K) -> K::Output {
        match self {
            Self::Portable(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni(simd) => simd.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(simd) => simd.vectorize(kernel),
        }
    }
}
