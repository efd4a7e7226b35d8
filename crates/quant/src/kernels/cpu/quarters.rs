//! Sixteen sums in four NEON registers of 128 bits.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::aarch64::{
    float32x4_t, int16x8_t, int32x4_t, uint8x16_t, vaddq_f32, vaddq_s32, vcombine_s16, vcombine_u8,
    vcvtnq_s32_f32, vcvtq_f32_s32, vdupq_n_f32, vdupq_n_s32, vget_low_s8, vget_low_s16,
    vget_low_u8, vld1q_s8, vld1q_u8, vmaxq_f32, vminq_f32, vmlaq_s32, vmovl_high_s8,
    vmovl_high_s16, vmovl_high_u8, vmovl_s8, vmovl_s16, vmovl_u8, vmovn_s32, vmovn_u16, vmulq_f32,
    vreinterpretq_s16_u16, vreinterpretq_u16_s16, vst1q_u8,
};
use std::mem::transmute;

use super::sink::{Clamp, Plus};
use super::vector::{LANES, Simd};

/// Sums of four products for four lanes; a value of the type proves that the CPU has NEON and what
/// else they take.
pub(super) trait Quads: Copy {
    /// Four signed weights for each lane.
    type Weights: Copy;
    /// Four unsigned activations, the same for all lanes.
    type Quad: Copy;

    /// Reads 16 weights.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn weights(self, from: *const i8) -> Self::Weights;

    /// Reads four activations.
    ///
    /// # Safety
    /// They lie in one allocation and are initialised.
    unsafe fn spread(self, from: *const u8) -> Self::Quad;

    /// `sums + Σ quad[i]·weights[i]`, lane by lane.
    fn dot(self, sums: int32x4_t, quad: Self::Quad, weights: Self::Weights) -> int32x4_t;
}

/// Sixteen lanes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quarters<Q>(pub(super) Q);

type Four = [int32x4_t; 4];

impl<Q: Quads> Simd for Quarters<Q> {
    type Sums = Four;
    type Weights = [Q::Weights; 4];
    type Quad = Q::Quad;

    #[inline(always)]
    fn zero(self) -> Four {
        // SAFETY: a value of the type proves that the CPU has NEON.
        [unsafe { vdupq_n_s32(0) }; 4]
    }

    #[inline(always)]
    fn add(self, a: Four, b: Four) -> Four {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { sum(a, b) }
    }

    #[inline(always)]
    fn dot(self, sums: Four, quad: Q::Quad, weights: [Q::Weights; 4]) -> Four {
        // Written out: a closure that is not inlined would lose the instructions.
        [
            self.0.dot(sums[0], quad, weights[0]),
            self.0.dot(sums[1], quad, weights[1]),
            self.0.dot(sums[2], quad, weights[2]),
            self.0.dot(sums[3], quad, weights[3]),
        ]
    }

    #[inline(always)]
    fn multiply_add(self, sums: Four, a: Four, b: Four) -> Four {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { products(sums, a, b) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const i32) -> Four {
        // SAFETY: the caller promises sixteen initialised numbers.
        unsafe { from.cast::<Four>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn weights(self, from: *const i8) -> [Q::Weights; 4] {
        // SAFETY: the caller promises 64 initialised bytes.
        let first = unsafe { self.0.weights(from) };
        // SAFETY: the same.
        let second = unsafe { self.0.weights(from.wrapping_add(16)) };
        // SAFETY: the same.
        let third = unsafe { self.0.weights(from.wrapping_add(32)) };
        // SAFETY: the same.
        let fourth = unsafe { self.0.weights(from.wrapping_add(48)) };
        [first, second, third, fourth]
    }

    #[inline(always)]
    unsafe fn spread(self, from: *const u8) -> Q::Quad {
        // SAFETY: the caller promises four initialised bytes.
        unsafe { self.0.spread(from) }
    }

    #[inline(always)]
    unsafe fn widen(self, from: *const u8) -> Four {
        // SAFETY: the caller promises sixteen initialised bytes.
        let bytes = unsafe { vld1q_u8(from) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { widened_bytes(bytes) }
    }

    #[inline(always)]
    unsafe fn widen_signed(self, from: *const i8) -> Four {
        // SAFETY: the caller promises sixteen initialised bytes.
        let halves = unsafe { signed_halves(from) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { widened(halves) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32, sums: Four, count: usize) {
        // SAFETY: four registers are sixteen numbers.
        let all = unsafe { transmute::<Four, [i32; LANES]>(sums) };
        // SAFETY: the caller promises room for `count`.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn store_scaled(self, to: *mut f32, sums: Four, scales: *const f32, count: usize) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { read_scales(scales) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        let scaled = unsafe { scaled(sums, scales) };
        // SAFETY: four registers are sixteen numbers.
        let all = unsafe { transmute::<[float32x4_t; 4], [f32; LANES]>(scaled) };
        // SAFETY: the caller promises room for `count`.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn store_clamped(
        self,
        to: *mut u8,
        sums: Four,
        scales: *const f32,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { read_scales(scales) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        let scaled = unsafe { scaled(sums, scales) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        let codes = unsafe { clamped(scaled, clamp) };
        // SAFETY: the caller promises room for `count`.
        unsafe { write_codes(to, codes, count) };
    }

    #[inline(always)]
    unsafe fn store_summed(
        self,
        to: *mut u8,
        sums: Four,
        scales: *const f32,
        codes: *const u8,
        plus: Plus,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { read_scales(scales) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        let scaled = unsafe { scaled(sums, scales) };
        let mut all = [0_u8; LANES];
        // SAFETY: the caller promises `count` codes, which are at most sixteen.
        unsafe { codes.copy_to_nonoverlapping(all.as_mut_ptr(), count) };
        // SAFETY: there are sixteen codes.
        let codes = unsafe { self.widen(all.as_ptr()) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        let values = unsafe { plus_codes(scaled, codes, plus) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        let codes = unsafe { clamped(values, clamp) };
        // SAFETY: the caller promises room for `count`.
        unsafe { write_codes(to, codes, count) };
    }
}

/// Sixteen signed bytes as numbers of 16 bits.
///
/// # Safety
/// They lie in one allocation and are initialised.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn signed_halves(from: *const i8) -> [int16x8_t; 2] {
    // SAFETY: the caller promises sixteen bytes.
    let bytes = unsafe { vld1q_s8(from) };
    [vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)]
}

#[inline]
#[target_feature(enable = "neon")]
fn sum(a: Four, b: Four) -> Four {
    std::array::from_fn(|quarter| vaddq_s32(a[quarter], b[quarter]))
}

/// `sums + a·b`.
#[inline]
#[target_feature(enable = "neon")]
fn products(sums: Four, a: Four, b: Four) -> Four {
    std::array::from_fn(|quarter| vmlaq_s32(sums[quarter], a[quarter], b[quarter]))
}

/// Unsigned bytes as numbers of 32 bits.
#[inline]
#[target_feature(enable = "neon")]
fn widened_bytes(bytes: uint8x16_t) -> Four {
    let low = vmovl_u8(vget_low_u8(bytes));
    widened([vreinterpretq_s16_u16(low), vreinterpretq_s16_u16(vmovl_high_u8(bytes))])
}

/// Numbers of 16 bits as numbers of 32.
#[inline]
#[target_feature(enable = "neon")]
fn widened([low, high]: [int16x8_t; 2]) -> Four {
    [
        vmovl_s16(vget_low_s16(low)),
        vmovl_high_s16(low),
        vmovl_s16(vget_low_s16(high)),
        vmovl_high_s16(high),
    ]
}

/// `sums · scales`.
#[inline]
#[target_feature(enable = "neon")]
fn scaled(sums: Four, scales: [float32x4_t; 4]) -> [float32x4_t; 4] {
    std::array::from_fn(|quarter| vmulq_f32(vcvtq_f32_s32(sums[quarter]), scales[quarter]))
}

/// `values + (codes − zero)·factor`, with two roundings as with every other set.
#[inline]
#[target_feature(enable = "neon")]
fn plus_codes(values: [float32x4_t; 4], codes: Four, plus: Plus) -> [float32x4_t; 4] {
    let (zero, factor) = (vdupq_n_s32(-plus.zero), vdupq_n_f32(plus.factor));
    std::array::from_fn(|quarter| {
        let steps = vcvtq_f32_s32(vaddq_s32(codes[quarter], zero));
        vaddq_f32(values[quarter], vmulq_f32(steps, factor))
    })
}

/// `clamp(value)`, rounded to even, as bytes.
#[inline]
#[target_feature(enable = "neon")]
fn clamped(values: [float32x4_t; 4], clamp: Clamp) -> uint8x16_t {
    let (low, high) = (vdupq_n_f32(clamp.low), vdupq_n_f32(clamp.high));
    let zero = vdupq_n_s32(clamp.zero);
    let whole: Four = std::array::from_fn(|quarter| {
        let bounded = vminq_f32(vmaxq_f32(values[quarter], low), high);
        vaddq_s32(vcvtnq_s32_f32(bounded), zero)
    });
    let low = vcombine_s16(vmovn_s32(whole[0]), vmovn_s32(whole[1]));
    let high = vcombine_s16(vmovn_s32(whole[2]), vmovn_s32(whole[3]));
    vcombine_u8(vmovn_u16(vreinterpretq_u16_s16(low)), vmovn_u16(vreinterpretq_u16_s16(high)))
}

/// Reads sixteen scales.
///
/// # Safety
/// They lie in one allocation and are initialised.
#[inline(always)]
unsafe fn read_scales(from: *const f32) -> [float32x4_t; 4] {
    // SAFETY: the caller promises sixteen numbers.
    unsafe { from.cast::<[float32x4_t; 4]>().read_unaligned() }
}

/// Writes the first `count` of sixteen bytes.
///
/// # Safety
/// `to` has room for them, and nothing else uses it meanwhile.
#[inline(always)]
unsafe fn write_codes(to: *mut u8, codes: uint8x16_t, count: usize) {
    let mut all = [0_u8; LANES];
    // SAFETY: there is room for sixteen.
    unsafe { vst1q_u8(all.as_mut_ptr(), codes) };
    // SAFETY: the caller promises room for `count`.
    unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
}
