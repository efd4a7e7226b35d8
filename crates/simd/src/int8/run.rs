//! One source, compiled for every instruction set that sums products of bytes.

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

/// A computation that is written once for vectors of [`Int8`].
pub trait Int8Kernel {
    /// What is computed.
    type Output;

    /// Computes it; has to be `#[inline(always)]`, as all that it calls.
    fn run<S: Int8>(self, simd: S) -> Self::Output;
}

/// The vectors for arithmetic of bytes that this CPU has: what [`Isa::int8_vectors`] has checked.
#[derive(Debug, Clone, Copy)]
pub enum Int8Vectors {
    /// Rust without intrinsics.
    Portable(Portable),
    /// Four registers of aarch64.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    /// The same with `sdot`.
    #[cfg(target_arch = "aarch64")]
    NeonDot(NeonDot),
    /// Two registers of x86-64.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// The same with VNNI.
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni),
    /// One register of x86-64, with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni),
}

impl Isa {
    /// The vectors for arithmetic of bytes of the set.
    ///
    /// # Panics
    /// If this CPU does not have it.
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
                Self::Avx512Vnni => Avx512Vnni::detect().map(Int8Vectors::Avx512Vnni),
                _ => Some(Int8Vectors::Portable(Portable)),
            }
        } else {
            None
        };
        vectors.unwrap_or_else(|| panic!("this CPU has no {self}"))
    }
}

impl Int8Vectors {
    /// Runs a kernel with them.
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
