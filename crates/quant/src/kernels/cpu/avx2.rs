//! Sixteen sums in two registers: AVX2.
//!
//! Products of an unsigned and a signed byte are summed in 32 bits from the start; the instruction
//! that multiplies bytes saturates at 16.
//!
//! Halves are written out: a closure that is not inlined would lose the instructions.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm_loadl_epi64,
    _mm_packus_epi16, _mm_storeu_si128, _mm256_add_epi32, _mm256_and_si256, _mm256_castsi256_si128,
    _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_cvtps_epi32,
    _mm256_extracti128_si256, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_packs_epi32, _mm256_permute4x64_epi64,
    _mm256_round_ps, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_si256,
    _mm256_slli_epi16, _mm256_srai_epi16, _mm256_srli_epi16, _mm256_storeu_ps, _mm256_storeu_si256,
};

use super::depthwise::{self, ChannelJob};
use super::lines;
use super::sink::{Clamp, Sink};
use super::tile::{self, DotJob};
use super::vector::{LANES, Simd};

/// Proof that the CPU has AVX2.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

/// The bytes of every 16 bits, widened to 16: first the lower, then the upper.
type Widened = [__m256i; 2];

impl Simd for Avx2 {
    type Sums = [__m256i; 2];
    type Weights = [Widened; 2];
    type Quad = Widened;

    #[inline(always)]
    fn zero(self) -> [__m256i; 2] {
        // SAFETY: the proof is at hand.
        let zero = unsafe { _mm256_setzero_si256() };
        [zero; 2]
    }

    #[inline(always)]
    fn add(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        [self.sum(a[0], b[0]), self.sum(a[1], b[1])]
    }

    #[inline(always)]
    fn dot(self, sums: [__m256i; 2], quad: Widened, weights: [Widened; 2]) -> [__m256i; 2] {
        [self.dot_half(sums[0], quad, weights[0]), self.dot_half(sums[1], quad, weights[1])]
    }

    #[inline(always)]
    fn multiply_add(self, sums: [__m256i; 2], a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        let products = [self.products(a[0], b[0]), self.products(a[1], b[1])];
        self.add(sums, products)
    }

    #[inline(always)]
    unsafe fn load(self, from: *const i32) -> [__m256i; 2] {
        // SAFETY: the caller promises sixteen initialised numbers.
        let first = unsafe { _mm256_loadu_si256(from.cast()) };
        // SAFETY: the same.
        let second = unsafe { _mm256_loadu_si256(from.wrapping_add(8).cast()) };
        [first, second]
    }

    #[inline(always)]
    unsafe fn weights(self, from: *const i8) -> [Widened; 2] {
        // SAFETY: the caller promises 64 initialised bytes.
        let first = unsafe { _mm256_loadu_si256(from.cast()) };
        // SAFETY: the same.
        let second = unsafe { _mm256_loadu_si256(from.wrapping_add(32).cast()) };
        [self.widened(first), self.widened(second)]
    }

    #[inline(always)]
    unsafe fn spread(self, from: *const u8) -> Widened {
        // SAFETY: the caller promises four initialised bytes.
        let quad = unsafe { from.cast::<i32>().read_unaligned() };
        // SAFETY: the proof is at hand.
        let quads = unsafe { _mm256_set1_epi32(quad) };
        // SAFETY: the proof is at hand.
        let mask = unsafe { _mm256_set1_epi16(0xFF) };
        // SAFETY: the proof is at hand.
        let lower = unsafe { _mm256_and_si256(quads, mask) };
        // SAFETY: the proof is at hand.
        let upper = unsafe { _mm256_srli_epi16::<8>(quads) };
        [lower, upper]
    }

    #[inline(always)]
    unsafe fn widen(self, from: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises sixteen initialised bytes.
        let [first, second] = unsafe { self.halves(from) };
        // SAFETY: the proof is at hand.
        let first = unsafe { _mm256_cvtepu8_epi32(first) };
        // SAFETY: the proof is at hand.
        let second = unsafe { _mm256_cvtepu8_epi32(second) };
        [first, second]
    }

    #[inline(always)]
    unsafe fn widen_signed(self, from: *const i8) -> [__m256i; 2] {
        // SAFETY: the caller promises sixteen initialised bytes.
        let [first, second] = unsafe { self.halves(from.cast()) };
        // SAFETY: the proof is at hand.
        let first = unsafe { _mm256_cvtepi8_epi32(first) };
        // SAFETY: the proof is at hand.
        let second = unsafe { _mm256_cvtepi8_epi32(second) };
        [first, second]
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32, sums: [__m256i; 2], count: usize) {
        let mut all = [0_i32; LANES];
        for (half, sums) in all.chunks_exact_mut(8).zip(sums) {
            // SAFETY: a half is eight numbers.
            unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast(), sums) };
        }
        // SAFETY: the caller promises room for `count`.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn store_scaled(
        self,
        to: *mut f32,
        sums: [__m256i; 2],
        scales: *const f32,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scaled = unsafe { self.scaled(sums, scales) };
        let mut all = [0_f32; LANES];
        for (half, values) in all.chunks_exact_mut(8).zip(scaled) {
            // SAFETY: a half is eight numbers.
            unsafe { _mm256_storeu_ps(half.as_mut_ptr(), values) };
        }
        // SAFETY: the caller promises room for `count`.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn store_clamped(
        self,
        to: *mut u8,
        sums: [__m256i; 2],
        scales: *const f32,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scaled = unsafe { self.scaled(sums, scales) };
        let bytes = self.narrowed([self.clamped(scaled[0], clamp), self.clamped(scaled[1], clamp)]);
        if count == LANES {
            // SAFETY: the caller promises room for sixteen.
            unsafe { _mm_storeu_si128(to.cast(), bytes) };
            return;
        }
        let mut all = [0_u8; LANES];
        // SAFETY: there is room for sixteen.
        unsafe { _mm_storeu_si128(all.as_mut_ptr().cast(), bytes) };
        // SAFETY: the caller promises room for `count`.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
    }
}

impl Avx2 {
    #[inline(always)]
    fn sum(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the proof is at hand.
        unsafe { _mm256_add_epi32(a, b) }
    }

    /// The sums of two products of 16 bits.
    #[inline(always)]
    fn products(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the proof is at hand.
        unsafe { _mm256_madd_epi16(a, b) }
    }

    /// `sum + Σ quad[i]·weights[i]` of eight lanes.
    #[inline(always)]
    fn dot_half(self, sum: __m256i, quad: Widened, weights: Widened) -> __m256i {
        let sum = self.sum(sum, self.products(quad[0], weights[0]));
        self.sum(sum, self.products(quad[1], weights[1]))
    }

    /// Signed bytes as 16 bits: of every two the lower, and the upper.
    #[inline(always)]
    fn widened(self, bytes: __m256i) -> Widened {
        // SAFETY: the proof is at hand.
        let raised = unsafe { _mm256_slli_epi16::<8>(bytes) };
        // SAFETY: the proof is at hand.
        let lower = unsafe { _mm256_srai_epi16::<8>(raised) };
        // SAFETY: the proof is at hand.
        let upper = unsafe { _mm256_srai_epi16::<8>(bytes) };
        [lower, upper]
    }

    /// Sixteen bytes, eight in each.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    #[inline(always)]
    unsafe fn halves(self, from: *const u8) -> [__m128i; 2] {
        // SAFETY: the caller promises sixteen bytes.
        let first = unsafe { _mm_loadl_epi64(from.cast()) };
        // SAFETY: the same.
        let second = unsafe { _mm_loadl_epi64(from.wrapping_add(8).cast()) };
        [first, second]
    }

    /// `sums · scales` of eight lanes.
    ///
    /// # Safety
    /// There are eight scales.
    #[inline(always)]
    unsafe fn scaled_half(self, sums: __m256i, scales: *const f32) -> __m256 {
        // SAFETY: the caller promises eight scales.
        let scales = unsafe { _mm256_loadu_ps(scales) };
        // SAFETY: the proof is at hand.
        let sums = unsafe { _mm256_cvtepi32_ps(sums) };
        // SAFETY: the proof is at hand.
        unsafe { _mm256_mul_ps(sums, scales) }
    }

    /// `sums · scales`.
    ///
    /// # Safety
    /// There are sixteen scales.
    #[inline(always)]
    unsafe fn scaled(self, sums: [__m256i; 2], scales: *const f32) -> [__m256; 2] {
        // SAFETY: the caller promises sixteen scales.
        let first = unsafe { self.scaled_half(sums[0], scales) };
        // SAFETY: the same.
        let second = unsafe { self.scaled_half(sums[1], scales.wrapping_add(8)) };
        [first, second]
    }

    #[inline(always)]
    fn clamped(self, values: __m256, clamp: Clamp) -> __m256i {
        // SAFETY: the proof is at hand.
        let low = unsafe { _mm256_set1_ps(clamp.low) };
        // SAFETY: the proof is at hand.
        let high = unsafe { _mm256_set1_ps(clamp.high) };
        // SAFETY: the proof is at hand.
        let values = unsafe { _mm256_max_ps(values, low) };
        // SAFETY: the proof is at hand.
        let values = unsafe { _mm256_min_ps(values, high) };
        // SAFETY: the proof is at hand.
        let whole =
            unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(values) };
        // SAFETY: the proof is at hand.
        let whole = unsafe { _mm256_cvtps_epi32(whole) };
        // SAFETY: the proof is at hand.
        let zero = unsafe { _mm256_set1_epi32(clamp.zero) };
        self.sum(whole, zero)
    }

    /// Sixteen numbers of 0 to 255 as bytes.
    #[inline(always)]
    fn narrowed(self, [low, high]: [__m256i; 2]) -> __m128i {
        // SAFETY: the proof is at hand.
        let words = unsafe { _mm256_packs_epi32(low, high) };
        // The halves were packed apart.
        // SAFETY: the proof is at hand.
        let words = unsafe { _mm256_permute4x64_epi64::<0xD8>(words) };
        // SAFETY: the proof is at hand.
        let first = unsafe { _mm256_castsi256_si128(words) };
        // SAFETY: the proof is at hand.
        let second = unsafe { _mm256_extracti128_si256::<1>(words) };
        // SAFETY: the proof is at hand.
        unsafe { _mm_packus_epi16(first, second) }
    }
}

tile::entries! {
    #[target_feature(enable = "avx2")]
    Avx2 = Avx2(()),
    one [(4, 1) (3, 1) (2, 1) (1, 2)],
    two []
}

depthwise::entries! {
    #[target_feature(enable = "avx2")]
    Avx2 = Avx2(())
}

lines::entries! {
    #[target_feature(enable = "avx2")]
}
