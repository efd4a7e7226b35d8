//! Sums of four products by NEON alone.
//!
//! A product of an unsigned and a signed byte fits 16 bits.
#![expect(unsafe_code, reason = "intrinsics, and reads through checked pointers")]

use std::arch::aarch64::{
    int16x8_t, int32x4_t, vaddq_s32, vdup_n_u32, vmovl_u8, vmulq_s16, vpaddlq_s16, vpaddq_s32,
    vreinterpret_u8_u32, vreinterpretq_s16_u16,
};

use super::depthwise::{self, ChannelJob};
use super::lines;
use super::quarters::{Quads, Quarters, signed_halves};
use super::sink::Sink;
use super::tile::{self, DotJob};

/// Proof that the CPU has NEON.
#[derive(Debug, Clone, Copy)]
struct Widening(());

impl Quads for Widening {
    type Weights = [int16x8_t; 2];
    type Quad = int16x8_t;

    #[inline(always)]
    unsafe fn weights(self, from: *const i8) -> [int16x8_t; 2] {
        // SAFETY: the caller promises 16 initialised bytes.
        unsafe { signed_halves(from) }
    }

    #[inline(always)]
    unsafe fn spread(self, from: *const u8) -> int16x8_t {
        // SAFETY: the caller promises four initialised bytes.
        let quad = unsafe { from.cast::<u32>().read_unaligned() };
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { widened_quad(quad) }
    }

    #[inline(always)]
    fn dot(self, sums: int32x4_t, quad: int16x8_t, weights: [int16x8_t; 2]) -> int32x4_t {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { sums_of_products(sums, quad, weights) }
    }
}

/// Four bytes as numbers of 16 bits, twice.
#[inline]
#[target_feature(enable = "neon")]
fn widened_quad(quad: u32) -> int16x8_t {
    vreinterpretq_s16_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(quad))))
}

#[inline]
#[target_feature(enable = "neon")]
fn sums_of_products(sums: int32x4_t, quad: int16x8_t, weights: [int16x8_t; 2]) -> int32x4_t {
    let [low, high] = weights.map(|weights| vpaddlq_s16(vmulq_s16(quad, weights)));
    vaddq_s32(sums, vpaddq_s32(low, high))
}

tile::entries! {
    #[target_feature(enable = "neon")]
    Quarters<Widening> = Quarters(Widening(())),
    one [(4, 1) (3, 1) (2, 1) (1, 2)],
    two []
}

depthwise::entries! {
    #[target_feature(enable = "neon")]
    Quarters<Widening> = Quarters(Widening(()))
}

lines::entries! {
    #[target_feature(enable = "neon")]
}
