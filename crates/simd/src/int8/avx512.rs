//! Int8 dot products with AVX-512 VNNI: sixteen lanes in one register.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m512i, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128,
    _mm_mask_storeu_epi8, _mm_maskz_loadu_epi8, _mm512_add_epi32, _mm512_add_ps,
    _mm512_cvt_roundps_epi32, _mm512_cvtepi8_epi32, _mm512_cvtepi32_epi8, _mm512_cvtepi32_ps,
    _mm512_cvtepu8_epi32, _mm512_dpbusd_epi32, _mm512_dpwssd_epi32, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_mask_storeu_epi32, _mm512_mask_storeu_ps, _mm512_max_ps,
    _mm512_min_ps, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_si512,
    _mm512_storeu_ps,
};

use super::lanes::Int8;
use super::requantize::{Clamp, Plus};
use super::run::Int8Kernel;
use crate::isa::Isa;

/// Proof that the CPU has AVX-512 F, BW, VL and VNNI.
#[derive(Debug, Clone, Copy)]
pub struct Avx512Vnni(());

impl Int8 for Avx512Vnni {
    const ISA: Isa = Isa::Avx512Vnni;

    type Lanes = __m512i;
    type Weights = __m512i;
    type Quad = __m512i;

    #[inline(always)]
    fn vectorize<K: Int8Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
        fn run<K: Int8Kernel>(simd: Avx512Vnni, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    fn zero(self) -> __m512i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn splat(self, value: i32) -> __m512i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_set1_epi32(value) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn dot(self, sums: __m512i, quad: __m512i, weights: __m512i) -> __m512i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_dpbusd_epi32(sums, quad, weights) }
    }

    #[inline(always)]
    fn dot_within_16_bits(self, sums: __m512i, bytes: __m512i, weights: __m512i) -> __m512i {
        self.dot(sums, bytes, weights)
    }

    #[inline(always)]
    fn dot_pairs(self, sums: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_dpwssd_epi32(sums, a, b) }
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        crate::prefetch(at);
    }

    #[inline(always)]
    #[expect(clippy::pointers_in_nomem_asm_block, reason = "there is no instruction in it")]
    fn hide(self, at: *const u8) -> *const u8 {
        let mut at = at;
        // SAFETY: the assembly contains no instruction and changes nothing.
        unsafe { asm!("/* {} */", inout(reg) at, options(nomem, nostack, preserves_flags)) };
        at
    }

    #[inline(always)]
    unsafe fn load(self, from: *const i32) -> __m512i {
        // SAFETY: the caller promises sixteen initialised numbers.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn weights(self, from: *const i8) -> __m512i {
        // SAFETY: the caller promises 64 initialised bytes.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn quad(self, from: *const u8) -> __m512i {
        // SAFETY: the caller promises four initialised bytes.
        let quad = unsafe { from.cast::<i32>().read_unaligned() };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_set1_epi32(quad) }
    }

    #[inline(always)]
    unsafe fn widen(self, from: *const u8) -> __m512i {
        // SAFETY: the caller promises sixteen initialised bytes.
        let bytes = unsafe { _mm_loadu_si128(from.cast()) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_cvtepu8_epi32(bytes) }
    }

    #[inline(always)]
    unsafe fn widen_signed(self, from: *const i8) -> __m512i {
        // SAFETY: the caller promises sixteen initialised bytes.
        let bytes = unsafe { _mm_loadu_si128(from.cast()) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_cvtepi8_epi32(bytes) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32, sums: __m512i, count: usize) {
        // SAFETY: the caller promises room for what the mask selects.
        unsafe { _mm512_mask_storeu_epi32(to, first(count), sums) };
    }

    #[inline(always)]
    unsafe fn add_scaled(self, to: *mut f32, sums: __m512i, factor: f32) {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let factors = unsafe { _mm512_set1_ps(factor) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let sums = unsafe { _mm512_cvtepi32_ps(sums) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let more = unsafe { _mm512_mul_ps(sums, factors) };
        // SAFETY: the caller promises sixteen numbers.
        let before = unsafe { _mm512_loadu_ps(to) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let after = unsafe { _mm512_add_ps(before, more) };
        // SAFETY: the caller promises sixteen numbers.
        unsafe { _mm512_storeu_ps(to, after) };
    }

    #[inline(always)]
    unsafe fn store_scaled(self, to: *mut f32, sums: __m512i, scales: *const f32, count: usize) {
        // SAFETY: the caller promises sixteen scales.
        let scaled = unsafe { self.scaled(sums, scales) };
        // SAFETY: the caller promises room for what the mask selects.
        unsafe { _mm512_mask_storeu_ps(to, first(count), scaled) };
    }

    #[inline(always)]
    unsafe fn store_clamped(
        self,
        to: *mut u8,
        sums: __m512i,
        scales: *const f32,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scaled = unsafe { self.scaled(sums, scales) };
        let bytes = self.clamped(scaled, clamp);
        // SAFETY: the caller promises room for what the mask selects.
        unsafe { _mm_mask_storeu_epi8(to.cast(), first(count), bytes) };
    }

    #[inline(always)]
    unsafe fn store_summed(
        self,
        to: *mut u8,
        sums: __m512i,
        scales: *const f32,
        codes: *const u8,
        plus: Plus,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scaled = unsafe { self.scaled(sums, scales) };
        // SAFETY: the caller promises the codes that the mask selects.
        let codes = unsafe { _mm_maskz_loadu_epi8(first(count), codes.cast()) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let codes = unsafe { _mm512_cvtepu8_epi32(codes) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let zero = unsafe { _mm512_set1_epi32(-plus.zero) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let steps = unsafe { _mm512_cvtepi32_ps(self.add(codes, zero)) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let factor = unsafe { _mm512_set1_ps(plus.factor) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let more = unsafe { _mm512_mul_ps(steps, factor) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let values = unsafe { _mm512_add_ps(scaled, more) };
        let bytes = self.clamped(values, clamp);
        // SAFETY: the caller promises room for what the mask selects.
        unsafe { _mm_mask_storeu_epi8(to.cast(), first(count), bytes) };
    }
}

impl Avx512Vnni {
    /// Returns the proof if this CPU has the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        Isa::Avx512Vnni.is_available().then_some(Self(()))
    }

    /// `sums · scales`.
    ///
    /// # Safety
    /// There are sixteen scales.
    #[inline(always)]
    unsafe fn scaled(self, sums: __m512i, scales: *const f32) -> std::arch::x86_64::__m512 {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { _mm512_loadu_ps(scales) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let sums = unsafe { _mm512_cvtepi32_ps(sums) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_mul_ps(sums, scales) }
    }

    #[inline(always)]
    fn clamped(self, values: std::arch::x86_64::__m512, clamp: Clamp) -> __m128i {
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let low = unsafe { _mm512_set1_ps(clamp.low) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let high = unsafe { _mm512_set1_ps(clamp.high) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let values = unsafe { _mm512_max_ps(values, low) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let values = unsafe { _mm512_min_ps(values, high) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let whole = unsafe {
            _mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(values)
        };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        let zero = unsafe { _mm512_set1_epi32(clamp.zero) };
        // SAFETY: a value of the type proves that the CPU has the instructions.
        unsafe { _mm512_cvtepi32_epi8(self.add(whole, zero)) }
    }
}

/// The mask of the first `count` lanes, of at most sixteen.
#[inline(always)]
fn first(count: usize) -> u16 {
    (0xFFFF_u32 >> (16 - count as u32)) as u16
}
