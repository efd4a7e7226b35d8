//! Int8 dot products with the NEON instruction `sdot`.
//!
//! `sdot` multiplies signed bytes, so each unsigned byte is split into its low seven bits and its
//! highest bit. The code uses assembly because the intrinsics are not stable.
#![expect(unsafe_code, reason = "intrinsics and assembly")]

use std::arch::aarch64::{
    int8x16_t, int32x4_t, vaddq_s32, vandq_u8, vdupq_n_s32, vdupq_n_u8, vreinterpretq_s8_s32,
    vreinterpretq_s8_u8, vreinterpretq_u8_s32, vshlq_n_s32, vshrq_n_u8,
};
use std::arch::asm;

use super::quarters::Quads;
use super::run::Int8Kernel;
use crate::isa::Isa;

/// Proof that the CPU has NEON with the dot product.
#[derive(Debug, Clone, Copy)]
pub struct NeonDot(());

impl Quads for NeonDot {
    const ISA: Isa = Isa::NeonDot;

    type Weights = int8x16_t;
    /// The lower seven bits, and the highest one.
    type Quad = [int8x16_t; 2];

    #[inline(always)]
    fn vectorize_quads<K: Int8Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "neon,dotprod")]
        fn run<K: Int8Kernel>(simd: NeonDot, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: a value of the type proves that the CPU has NEON with the dot product.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    fn weights_of(self, bytes: int32x4_t) -> int8x16_t {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { vreinterpretq_s8_s32(bytes) }
    }

    #[inline(always)]
    fn quad_of(self, bytes: int32x4_t) -> [int8x16_t; 2] {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { parts(bytes) }
    }

    #[inline(always)]
    fn dot_quarter(self, sums: int32x4_t, quad: [int8x16_t; 2], weights: int8x16_t) -> int32x4_t {
        // SAFETY: a value of the type proves that the CPU has NEON with the dot product.
        unsafe { sums_of_products(sums, quad, weights) }
    }

    #[inline(always)]
    fn dot_lanes(self, sums: int32x4_t, bytes: int32x4_t, weights: int32x4_t) -> int32x4_t {
        self.dot_quarter(sums, self.quad_of(bytes), self.weights_of(weights))
    }
}

impl NeonDot {
    /// Returns the proof if this CPU has the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        Isa::NeonDot.is_available().then_some(Self(()))
    }
}

/// Unsigned bytes, split into their low seven bits and their highest bit.
#[inline]
#[target_feature(enable = "neon")]
fn parts(bytes: int32x4_t) -> [int8x16_t; 2] {
    let bytes = vreinterpretq_u8_s32(bytes);
    let (lower, highest) = (vandq_u8(bytes, vdupq_n_u8(0x7F)), vshrq_n_u8::<7>(bytes));
    [vreinterpretq_s8_u8(lower), vreinterpretq_s8_u8(highest)]
}

#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sums_of_products(sums: int32x4_t, quad: [int8x16_t; 2], weights: int8x16_t) -> int32x4_t {
    let highest = sdot(vdupq_n_s32(0), quad[1], weights);
    vaddq_s32(sdot(sums, quad[0], weights), vshlq_n_s32::<7>(highest))
}

/// `sums + Σ a[i]·b[i]` of four bytes for each lane.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sums = sums;
    // SAFETY: the function is compiled for CPUs with the instruction, which touches no memory.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}
