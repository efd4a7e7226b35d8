//! Int8 dot products with AVX-VNNI: one instruction sums four products of bytes.
#![expect(unsafe_code, reason = "intrinsics")]

use std::arch::x86_64::{__m256i, _mm256_dpbusd_avx_epi32};

use super::halves::Quads;
use super::run::Int8Kernel;
use crate::isa::Isa;

/// Proof that the CPU has AVX2 and AVX-VNNI.
#[derive(Debug, Clone, Copy)]
pub struct AvxVnni(());

impl Quads for AvxVnni {
    const ISA: Isa = Isa::AvxVnni;

    type Weights = __m256i;
    type Quad = __m256i;

    #[inline(always)]
    fn vectorize_quads<K: Int8Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,avxvnni")]
        fn run<K: Int8Kernel>(simd: AvxVnni, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    fn weights_of(self, bytes: __m256i) -> __m256i {
        bytes
    }

    #[inline(always)]
    fn quad_of(self, bytes: __m256i) -> __m256i {
        bytes
    }

    #[inline(always)]
    fn dot_half(self, sums: __m256i, quad: __m256i, weights: __m256i) -> __m256i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm256_dpbusd_avx_epi32(sums, quad, weights) }
    }

    #[inline(always)]
    fn dot_half_within_16_bits(self, sums: __m256i, bytes: __m256i, weights: __m256i) -> __m256i {
        self.dot_half(sums, bytes, weights)
    }
}

impl AvxVnni {
    /// Returns the proof if this CPU has the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        Isa::AvxVnni.is_available().then_some(Self(()))
    }
}
