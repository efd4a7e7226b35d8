//! Sums of four products by the instruction `sdot`.
//!
//! It multiplies signed bytes, so an unsigned one is taken apart into its lower seven bits and its
//! highest bit. The intrinsics are not stable, hence the assembly.
#![expect(unsafe_code, reason = "intrinsics, and reads through checked pointers")]

use std::arch::aarch64::{
    int8x16_t, int32x4_t, vaddq_s32, vandq_u8, vdupq_n_s32, vdupq_n_u8, vdupq_n_u32, vld1q_s8,
    vreinterpretq_s8_u8, vreinterpretq_u8_u32, vshlq_n_s32, vshrq_n_u8,
};
use std::arch::asm;

use super::depthwise::{self, ChannelJob};
use super::lines;
use super::quarters::{Quads, Quarters};
use super::sink::Sink;
use super::tile::{self, DotJob};

/// Proof that the CPU has NEON with the dot product.
#[derive(Debug, Clone, Copy)]
struct Dot(());

impl Quads for Dot {
    type Weights = int8x16_t;
    /// The lower seven bits, and the highest one.
    type Quad = [int8x16_t; 2];

    #[inline(always)]
    unsafe fn weights(self, from: *const i8) -> int8x16_t {
        // SAFETY: the caller promises 16 initialised bytes.
        unsafe { vld1q_s8(from) }
    }

    #[inline(always)]
    unsafe fn spread(self, from: *const u8) -> [int8x16_t; 2] {
        // SAFETY: the caller promises four initialised bytes.
        let quad = unsafe { from.cast::<u32>().read_unaligned() };
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { parts(quad) }
    }

    #[inline(always)]
    fn dot(self, sums: int32x4_t, quad: [int8x16_t; 2], weights: int8x16_t) -> int32x4_t {
        // SAFETY: a value of the type proves that the CPU has NEON with the dot product.
        unsafe { sums_of_products(sums, quad, weights) }
    }
}

/// Four unsigned bytes for every lane: their lower seven bits, and their highest one.
#[inline]
#[target_feature(enable = "neon")]
fn parts(quad: u32) -> [int8x16_t; 2] {
    let bytes = vreinterpretq_u8_u32(vdupq_n_u32(quad));
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

tile::entries! {
    #[target_feature(enable = "neon,dotprod")]
    Quarters<Dot> = Quarters(Dot(())),
    one [(4, 1) (3, 1) (2, 1) (1, 2)],
    two []
}

depthwise::entries! {
    #[target_feature(enable = "neon,dotprod")]
    Quarters<Dot> = Quarters(Dot(()))
}

lines::entries! {
    #[target_feature(enable = "neon,dotprod")]
}
