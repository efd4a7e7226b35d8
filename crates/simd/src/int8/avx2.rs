//! Int8 dot products with AVX2.
//!
//! Products of unsigned and signed bytes are summed in 32 bits, because the instruction that
//! multiplies bytes saturates at 16 bits.
#![expect(unsafe_code, reason = "intrinsics")]

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_set1_epi16, _mm256_slli_epi16, _mm256_srai_epi16, _mm256_srli_epi16,
};

use super::halves::Quads;
use super::run::Int8Kernel;
use crate::isa::Isa;
use crate::vector::Avx2;

/// The low bytes of all 16-bit lanes, then the high bytes, both widened to 16 bits.
type Widened = [__m256i; 2];

impl Quads for Avx2 {
    const ISA: Isa = Isa::Avx2;

    type Weights = Widened;
    type Quad = Widened;

    #[inline(always)]
    fn vectorize_quads<K: Int8Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2")]
        fn run<K: Int8Kernel>(simd: Avx2, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    fn weights_of(self, bytes: __m256i) -> Widened {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let raised = unsafe { _mm256_slli_epi16::<8>(bytes) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let lower = unsafe { _mm256_srai_epi16::<8>(raised) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let upper = unsafe { _mm256_srai_epi16::<8>(bytes) };
        [lower, upper]
    }

    #[inline(always)]
    fn quad_of(self, bytes: __m256i) -> Widened {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let mask = unsafe { _mm256_set1_epi16(0xFF) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let lower = unsafe { _mm256_and_si256(bytes, mask) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let upper = unsafe { _mm256_srli_epi16::<8>(bytes) };
        [lower, upper]
    }

    #[inline(always)]
    fn dot_half(self, sums: __m256i, quad: Widened, weights: Widened) -> __m256i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let lower = unsafe { _mm256_madd_epi16(quad[0], weights[0]) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let sums = unsafe { _mm256_add_epi32(sums, lower) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let upper = unsafe { _mm256_madd_epi16(quad[1], weights[1]) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm256_add_epi32(sums, upper) }
    }

    #[inline(always)]
    fn dot_half_within_16_bits(self, sums: __m256i, bytes: __m256i, weights: __m256i) -> __m256i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let pairs = unsafe { _mm256_maddubs_epi16(bytes, weights) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let ones = unsafe { _mm256_set1_epi16(1) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let all = unsafe { _mm256_madd_epi16(pairs, ones) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm256_add_epi32(sums, all) }
    }
}
