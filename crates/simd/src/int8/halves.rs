//! Sixteen lanes in two 256-bit registers, for AVX2 and AVX-VNNI.
//!
//! The code of both halves is written out, because a closure that is not inlined would be compiled
//! without the instructions.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm_loadl_epi64,
    _mm_packus_epi16, _mm_storeu_si128, _mm256_add_epi32, _mm256_add_ps, _mm256_castsi256_si128,
    _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_cvtps_epi32,
    _mm256_extracti128_si256, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_packs_epi32, _mm256_permute4x64_epi64,
    _mm256_round_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_si256, _mm256_storeu_ps,
    _mm256_storeu_si256,
};

use super::lanes::{INT8_LANES, Int8};
use super::requantize::{Clamp, Plus};
use super::run::Int8Kernel;
use crate::isa::Isa;

/// Int8 dot products for eight lanes; a value of the type proves that the CPU has AVX2 and the
/// other required instructions.
pub trait Quads: Copy + Send + Sync + 'static {
    /// The instruction set.
    const ISA: Isa;

    /// Four signed weights for each lane.
    type Weights: Copy;

    /// Four unsigned bytes, the same for all lanes.
    type Quad: Copy;

    /// [`Int8::vectorize`].
    fn vectorize_quads<K: Int8Kernel>(self, kernel: K) -> K::Output;

    /// Prepares the weights of eight lanes.
    fn weights_of(self, bytes: __m256i) -> Self::Weights;

    /// Prepares four bytes that are in every lane.
    fn quad_of(self, bytes: __m256i) -> Self::Quad;

    /// `sums + Σ quad[i]·weights[i]`, lane by lane.
    fn dot_half(self, sums: __m256i, quad: Self::Quad, weights: Self::Weights) -> __m256i;

    /// [`Int8::dot_within_16_bits`] of eight lanes.
    fn dot_half_within_16_bits(self, sums: __m256i, bytes: __m256i, weights: __m256i) -> __m256i;
}

impl<Q: Quads> Int8 for Q {
    const ISA: Isa = <Q as Quads>::ISA;

    type Lanes = [__m256i; 2];
    type Weights = [<Q as Quads>::Weights; 2];
    type Quad = <Q as Quads>::Quad;

    #[inline(always)]
    fn vectorize<K: Int8Kernel>(self, kernel: K) -> K::Output {
        self.vectorize_quads(kernel)
    }

    #[inline(always)]
    fn zero(self) -> [__m256i; 2] {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let zero = unsafe { _mm256_setzero_si256() };
        [zero; 2]
    }

    #[inline(always)]
    fn splat(self, value: i32) -> [__m256i; 2] {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let half = unsafe { _mm256_set1_epi32(value) };
        [half; 2]
    }

    #[inline(always)]
    fn add(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        [self.sum(a[0], b[0]), self.sum(a[1], b[1])]
    }

    #[inline(always)]
    fn dot(
        self,
        sums: [__m256i; 2],
        quad: <Q as Quads>::Quad,
        weights: [<Q as Quads>::Weights; 2],
    ) -> [__m256i; 2] {
        [self.dot_half(sums[0], quad, weights[0]), self.dot_half(sums[1], quad, weights[1])]
    }

    #[inline(always)]
    fn dot_within_16_bits(
        self,
        sums: [__m256i; 2],
        bytes: [__m256i; 2],
        weights: [__m256i; 2],
    ) -> [__m256i; 2] {
        [
            self.dot_half_within_16_bits(sums[0], bytes[0], weights[0]),
            self.dot_half_within_16_bits(sums[1], bytes[1], weights[1]),
        ]
    }

    #[inline(always)]
    fn dot_pairs(self, sums: [__m256i; 2], a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
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
    unsafe fn weights(self, from: *const i8) -> [<Q as Quads>::Weights; 2] {
        // SAFETY: the caller promises 64 initialised bytes, sixteen lanes of them.
        let [first, second] = unsafe { self.load(from.cast()) };
        [self.weights_of(first), self.weights_of(second)]
    }

    #[inline(always)]
    unsafe fn quad(self, from: *const u8) -> <Q as Quads>::Quad {
        // SAFETY: the caller promises four initialised bytes.
        let quad = unsafe { from.cast::<i32>().read_unaligned() };
        let [bytes, _] = self.splat(quad);
        self.quad_of(bytes)
    }

    #[inline(always)]
    unsafe fn widen(self, from: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises sixteen initialised bytes.
        let [first, second] = unsafe { self.halves(from) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let first = unsafe { _mm256_cvtepu8_epi32(first) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let second = unsafe { _mm256_cvtepu8_epi32(second) };
        [first, second]
    }

    #[inline(always)]
    unsafe fn widen_signed(self, from: *const i8) -> [__m256i; 2] {
        // SAFETY: the caller promises sixteen initialised bytes.
        let [first, second] = unsafe { self.halves(from.cast()) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let first = unsafe { _mm256_cvtepi8_epi32(first) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let second = unsafe { _mm256_cvtepi8_epi32(second) };
        [first, second]
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32, sums: [__m256i; 2], count: usize) {
        let mut all = [0_i32; INT8_LANES];
        for (half, sums) in all.chunks_exact_mut(8).zip(sums) {
            // SAFETY: a half is eight numbers.
            unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast(), sums) };
        }
        // SAFETY: the caller promises room for `count`.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn add_scaled(self, to: *mut f32, sums: [__m256i; 2], factor: f32) {
        // SAFETY: the caller promises eight numbers, and eight more.
        unsafe { self.add_scaled_half(to, sums[0], factor) };
        // SAFETY: the same.
        unsafe { self.add_scaled_half(to.wrapping_add(8), sums[1], factor) };
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
        let mut all = [0_f32; INT8_LANES];
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
        // SAFETY: the caller promises room for `count`.
        unsafe { self.store_codes(to, scaled, clamp, count) };
    }

    #[inline(always)]
    unsafe fn store_summed(
        self,
        to: *mut u8,
        sums: [__m256i; 2],
        scales: *const f32,
        codes: *const u8,
        plus: Plus,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scaled = unsafe { self.scaled(sums, scales) };
        let mut all = [0_u8; INT8_LANES];
        let mut codes = codes;
        if count < INT8_LANES {
            // SAFETY: the caller promises `count` codes.
            unsafe { codes.copy_to_nonoverlapping(all.as_mut_ptr(), count) };
            codes = all.as_ptr();
        }
        // SAFETY: there are sixteen codes.
        let codes = unsafe { self.widen(codes) };
        let values = [self.plus(scaled[0], codes[0], plus), self.plus(scaled[1], codes[1], plus)];
        // SAFETY: the caller promises room for `count`.
        unsafe { self.store_codes(to, values, clamp, count) };
    }
}

/// Operations that all implementations share.
trait Halves: Quads {
    #[inline(always)]
    fn sum(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm256_add_epi32(a, b) }
    }

    /// The sums of two products of 16-bit numbers.
    #[inline(always)]
    fn products(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm256_madd_epi16(a, b) }
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

    /// [`Int8::add_scaled`] of eight lanes.
    ///
    /// # Safety
    /// `to` has eight numbers, and nothing else uses it meanwhile.
    #[inline(always)]
    unsafe fn add_scaled_half(self, to: *mut f32, sums: __m256i, factor: f32) {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let factors = unsafe { _mm256_set1_ps(factor) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let sums = unsafe { _mm256_cvtepi32_ps(sums) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let more = unsafe { _mm256_mul_ps(sums, factors) };
        // SAFETY: the caller promises eight numbers.
        let before = unsafe { _mm256_loadu_ps(to) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let after = unsafe { _mm256_add_ps(before, more) };
        // SAFETY: the caller promises eight numbers.
        unsafe { _mm256_storeu_ps(to, after) };
    }

    /// `sums · scales` of eight lanes.
    ///
    /// # Safety
    /// There are eight scales.
    #[inline(always)]
    unsafe fn scaled_half(self, sums: __m256i, scales: *const f32) -> __m256 {
        // SAFETY: the caller promises eight scales.
        let scales = unsafe { _mm256_loadu_ps(scales) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let sums = unsafe { _mm256_cvtepi32_ps(sums) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
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

    /// `values + (codes − zero)·factor` of eight lanes.
    #[inline(always)]
    fn plus(self, values: __m256, codes: __m256i, plus: Plus) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let zero = unsafe { _mm256_set1_epi32(-plus.zero) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let steps = unsafe { _mm256_cvtepi32_ps(self.sum(codes, zero)) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let factor = unsafe { _mm256_set1_ps(plus.factor) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let more = unsafe { _mm256_mul_ps(steps, factor) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm256_add_ps(values, more) }
    }

    /// Writes `clamp(value)` of the first `count` lanes.
    ///
    /// # Safety
    /// `to` has room for them, and nothing else uses it meanwhile.
    #[inline(always)]
    unsafe fn store_codes(self, to: *mut u8, values: [__m256; 2], clamp: Clamp, count: usize) {
        let bytes = self.narrowed([self.clamped(values[0], clamp), self.clamped(values[1], clamp)]);
        if count == INT8_LANES {
            // SAFETY: the caller promises room for sixteen.
            unsafe { _mm_storeu_si128(to.cast(), bytes) };
            return;
        }
        let mut all = [0_u8; INT8_LANES];
        // SAFETY: there is room for sixteen.
        unsafe { _mm_storeu_si128(all.as_mut_ptr().cast(), bytes) };
        // SAFETY: the caller promises room for `count`.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
    }

    #[inline(always)]
    fn clamped(self, values: __m256, clamp: Clamp) -> __m256i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let low = unsafe { _mm256_set1_ps(clamp.low) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let high = unsafe { _mm256_set1_ps(clamp.high) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let values = unsafe { _mm256_max_ps(values, low) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let values = unsafe { _mm256_min_ps(values, high) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let whole =
            unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(values) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let whole = unsafe { _mm256_cvtps_epi32(whole) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let zero = unsafe { _mm256_set1_epi32(clamp.zero) };
        self.sum(whole, zero)
    }

    /// Converts sixteen numbers from 0 to 255 to bytes.
    #[inline(always)]
    fn narrowed(self, [low, high]: [__m256i; 2]) -> __m128i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let words = unsafe { _mm256_packs_epi32(low, high) };
        // The pack instructions work on each 128-bit half separately.
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let words = unsafe { _mm256_permute4x64_epi64::<0xD8>(words) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let first = unsafe { _mm256_castsi256_si128(words) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let second = unsafe { _mm256_extracti128_si256::<1>(words) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm_packus_epi16(first, second) }
    }
}

impl<Q: Quads> Halves for Q {}
