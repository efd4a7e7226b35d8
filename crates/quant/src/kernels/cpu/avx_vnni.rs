//! Sums of four products in one instruction: AVX-VNNI.
#![expect(unsafe_code, reason = "intrinsics, and reads through checked pointers")]

use std::arch::x86_64::{__m256i, _mm256_dpbusd_avx_epi32, _mm256_loadu_si256, _mm256_set1_epi32};

use super::depthwise::{self, ChannelJob};
use super::lines;
use super::sink::Sink;
use super::tile::{self, DotJob};
use super::ymm::{Quads, Ymm};

/// Proof that the CPU has AVX2 and AVX-VNNI.
#[derive(Debug, Clone, Copy)]
struct Vnni(());

impl Quads for Vnni {
    type Weights = __m256i;
    type Quad = __m256i;

    #[inline(always)]
    unsafe fn weights(self, from: *const i8) -> __m256i {
        // SAFETY: the caller promises 32 initialised bytes.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn spread(self, from: *const u8) -> __m256i {
        // SAFETY: the caller promises four initialised bytes.
        let quad = unsafe { from.cast::<i32>().read_unaligned() };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm256_set1_epi32(quad) }
    }

    #[inline(always)]
    fn dot(self, sums: __m256i, quad: __m256i, weights: __m256i) -> __m256i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm256_dpbusd_avx_epi32(sums, quad, weights) }
    }
}

tile::entries! {
    #[target_feature(enable = "avx2,avxvnni")]
    Ymm<Vnni> = Ymm(Vnni(())),
    one [(6, 1) (5, 1) (4, 1) (3, 2) (2, 2) (1, 4)],
    two []
}

depthwise::entries! {
    #[target_feature(enable = "avx2,avxvnni")]
    Ymm<Vnni> = Ymm(Vnni(()))
}

lines::entries! {
    #[target_feature(enable = "avx2,avxvnni")]
}
