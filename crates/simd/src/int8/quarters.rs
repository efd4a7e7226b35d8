//! Sixteen lanes in four 128-bit NEON registers, with or without `sdot`.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::aarch64::{
    float32x4_t, int8x16_t, int16x8_t, int32x4_t, uint8x16_t, vaddq_f32, vaddq_s32, vcombine_s16,
    vcombine_u8, vcvtnq_s32_f32, vcvtq_f32_s32, vdupq_n_f32, vdupq_n_s32, vget_low_s8,
    vget_low_s16, vget_low_u8, vld1q_s8, vld1q_u8, vmaxq_f32, vminq_f32, vmlaq_s32, vmovl_high_s8,
    vmovl_high_s16, vmovl_high_u8, vmovl_s8, vmovl_s16, vmovl_u8, vmovn_s32, vmovn_u16,
    vmull_high_s16, vmull_s16, vmulq_f32, vpaddq_s32, vreinterpretq_s16_s32, vreinterpretq_s16_u16,
    vreinterpretq_u16_s16, vst1q_u8,
};
use std::mem::transmute;

use super::lanes::{INT8_LANES, Int8};
use super::requantize::{Clamp, Plus};
use super::run::Int8Kernel;
use crate::isa::Isa;

/// Int8 dot products for four lanes; a value of the type proves that the CPU has NEON and the other
/// required instructions.
pub trait Quads: Copy + Send + Sync + 'static {
    /// The instruction set.
    const ISA: Isa;

    /// Four signed weights for each lane.
    type Weights: Copy;

    /// Four unsigned bytes, the same for all lanes.
    type Quad: Copy;

    /// [`Int8::vectorize`].
    fn vectorize_quads<K: Int8Kernel>(self, kernel: K) -> K::Output;

    /// Prepares the weights of four lanes.
    fn weights_of(self, bytes: int32x4_t) -> Self::Weights;

    /// Prepares four bytes that are in every lane.
    fn quad_of(self, bytes: int32x4_t) -> Self::Quad;

    /// `sums + Σ quad[i]·weights[i]`, lane by lane.
    fn dot_quarter(self, sums: int32x4_t, quad: Self::Quad, weights: Self::Weights) -> int32x4_t;

    /// `sums + Σ bytes[i]·weights[i]` of four lanes, of which each has bytes of its own.
    fn dot_lanes(self, sums: int32x4_t, bytes: int32x4_t, weights: int32x4_t) -> int32x4_t;
}

type Four = [int32x4_t; 4];

impl<Q: Quads> Int8 for Q {
    const ISA: Isa = <Q as Quads>::ISA;

    type Lanes = Four;
    type Weights = [<Q as Quads>::Weights; 4];
    type Quad = <Q as Quads>::Quad;

    #[inline(always)]
    fn vectorize<K: Int8Kernel>(self, kernel: K) -> K::Output {
        self.vectorize_quads(kernel)
    }

    #[inline(always)]
    fn zero(self) -> Four {
        self.splat(0)
    }

    #[inline(always)]
    fn splat(self, value: i32) -> Four {
        // SAFETY: a value of the type proves that the CPU has NEON.
        [unsafe { vdupq_n_s32(value) }; 4]
    }

    #[inline(always)]
    fn add(self, a: Four, b: Four) -> Four {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { sum(a, b) }
    }

    #[inline(always)]
    fn dot(
        self,
        sums: Four,
        quad: <Q as Quads>::Quad,
        weights: [<Q as Quads>::Weights; 4],
    ) -> Four {
        // Written out, because a closure that is not inlined would be compiled without the
        // instructions.
        [
            self.dot_quarter(sums[0], quad, weights[0]),
            self.dot_quarter(sums[1], quad, weights[1]),
            self.dot_quarter(sums[2], quad, weights[2]),
            self.dot_quarter(sums[3], quad, weights[3]),
        ]
    }

    #[inline(always)]
    fn dot_within_16_bits(self, sums: Four, bytes: Four, weights: Four) -> Four {
        let mut sums = sums;
        for ((sums, bytes), weights) in sums.iter_mut().zip(bytes).zip(weights) {
            *sums = self.dot_lanes(*sums, bytes, weights);
        }
        sums
    }

    #[inline(always)]
    fn dot_pairs(self, sums: Four, a: Four, b: Four) -> Four {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { pair_products(sums, a, b) }
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
    unsafe fn weights(self, from: *const i8) -> [<Q as Quads>::Weights; 4] {
        // SAFETY: the caller promises 64 initialised bytes, sixteen lanes of them.
        let [first, second, third, fourth] = unsafe { self.load(from.cast()) };
        [
            self.weights_of(first),
            self.weights_of(second),
            self.weights_of(third),
            self.weights_of(fourth),
        ]
    }

    #[inline(always)]
    unsafe fn quad(self, from: *const u8) -> <Q as Quads>::Quad {
        // SAFETY: the caller promises four initialised bytes.
        let quad = unsafe { from.cast::<i32>().read_unaligned() };
        let [bytes, ..] = self.splat(quad);
        self.quad_of(bytes)
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
        let bytes = unsafe { vld1q_s8(from) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { widened(signed_halves(bytes)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32, sums: Four, count: usize) {
        // SAFETY: four registers are sixteen numbers.
        let all = unsafe { transmute::<Four, [i32; INT8_LANES]>(sums) };
        // SAFETY: the caller promises room for `count`.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn add_scaled(self, to: *mut f32, sums: Four, factor: f32) {
        let to = to.cast::<[float32x4_t; 4]>();
        // SAFETY: the caller promises sixteen numbers.
        let before = unsafe { to.read_unaligned() };
        // SAFETY: a value of the type proves that the CPU has NEON.
        let after = unsafe { added(before, sums, factor) };
        // SAFETY: the caller promises sixteen numbers.
        unsafe { to.write_unaligned(after) };
    }

    #[inline(always)]
    unsafe fn store_scaled(self, to: *mut f32, sums: Four, scales: *const f32, count: usize) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { read_scales(scales) };
        // SAFETY: a value of the type proves that the CPU has NEON.
        let scaled = unsafe { scaled(sums, scales) };
        // SAFETY: four registers are sixteen numbers.
        let all = unsafe { transmute::<[float32x4_t; 4], [f32; INT8_LANES]>(scaled) };
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
        let mut all = [0_u8; INT8_LANES];
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

/// Widens sixteen signed bytes to 16 bits.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn signed_halves(bytes: int8x16_t) -> [int16x8_t; 2] {
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

/// `sums + Σ a[i]·b[i]` of two 16-bit numbers for each lane.
#[inline]
#[target_feature(enable = "neon")]
fn pair_products(sums: Four, a: Four, b: Four) -> Four {
    std::array::from_fn(|quarter| {
        let a = vreinterpretq_s16_s32(a[quarter]);
        let b = vreinterpretq_s16_s32(b[quarter]);
        let low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
        vaddq_s32(sums[quarter], vpaddq_s32(low, vmull_high_s16(a, b)))
    })
}

/// Widens unsigned bytes to 32 bits.
#[inline]
#[target_feature(enable = "neon")]
fn widened_bytes(bytes: uint8x16_t) -> Four {
    let low = vmovl_u8(vget_low_u8(bytes));
    widened([vreinterpretq_s16_u16(low), vreinterpretq_s16_u16(vmovl_high_u8(bytes))])
}

/// Widens 16-bit numbers to 32 bits.
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

/// `values + sums · factor`, rounded twice as on every other instruction set.
#[inline]
#[target_feature(enable = "neon")]
fn added(values: [float32x4_t; 4], sums: Four, factor: f32) -> [float32x4_t; 4] {
    let more = scaled(sums, [vdupq_n_f32(factor); 4]);
    std::array::from_fn(|quarter| vaddq_f32(values[quarter], more[quarter]))
}

/// `values + (codes − zero)·factor`, rounded twice as on every other instruction set.
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
    let mut all = [0_u8; INT8_LANES];
    // SAFETY: there is room for sixteen.
    unsafe { vst1q_u8(all.as_mut_ptr(), codes) };
    // SAFETY: the caller promises room for `count`.
    unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
}
