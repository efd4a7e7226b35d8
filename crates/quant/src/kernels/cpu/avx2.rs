//! Sums of four products by AVX2.
//!
//! Products of an unsigned and a signed byte are summed in 32 bits from the start; the instruction
//! that multiplies bytes saturates at 16.
#![expect(unsafe_code, reason = "intrinsics, and reads through checked pointers")]

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_set1_epi16, _mm256_set1_epi32, _mm256_slli_epi16, _mm256_srai_epi16, _mm256_srli_epi16,
};

use super::depthwise::{self, ChannelJob};
use super::lines;
use super::sink::Sink;
use super::tile::{self, DotJob};
use super::ymm::{Quads, Ymm};

/// Proof that the CPU has AVX2.
#[derive(Debug, Clone, Copy)]
struct Widening(());

/// The bytes of every 16 bits, widened to 16: first the lower, then the upper.
type Widened = [__m256i; 2];

impl Quads for Widening {
    type Weights = Widened;
    type Quad = Widened;

    #[inline(always)]
    unsafe fn weights(self, from: *const i8) -> Widened {
        // SAFETY: the caller promises 32 initialised bytes.
        let bytes = unsafe { _mm256_loadu_si256(from.cast()) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let raised = unsafe { _mm256_slli_epi16::<8>(bytes) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let lower = unsafe { _mm256_srai_epi16::<8>(raised) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let upper = unsafe { _mm256_srai_epi16::<8>(bytes) };
        [lower, upper]
    }

    #[inline(always)]
    unsafe fn spread(self, from: *const u8) -> Widened {
        // SAFETY: the caller promises four initialised bytes.
        let quad = unsafe { from.cast::<i32>().read_unaligned() };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let quads = unsafe { _mm256_set1_epi32(quad) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let mask = unsafe { _mm256_set1_epi16(0xFF) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let lower = unsafe { _mm256_and_si256(quads, mask) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let upper = unsafe { _mm256_srli_epi16::<8>(quads) };
        [lower, upper]
    }

    #[inline(always)]
    fn dot(self, sums: __m256i, quad: Widened, weights: Widened) -> __m256i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let lower = unsafe { _mm256_madd_epi16(quad[0], weights[0]) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let sums = unsafe { _mm256_add_epi32(sums, lower) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let upper = unsafe { _mm256_madd_epi16(quad[1], weights[1]) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm256_add_epi32(sums, upper) }
    }
}

tile::entries! {
    #[target_feature(enable = "avx2")]
    Ymm<Widening> = Ymm(Widening(())),
    one [(4, 1) (3, 1) (2, 1) (1, 2)],
    two []
}

depthwise::entries! {
    #[target_feature(enable = "avx2")]
    Ymm<Widening> = Ymm(Widening(()))
}

lines::entries! {
    #[target_feature(enable = "avx2")]
}
