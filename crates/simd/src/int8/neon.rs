//! Int8 dot products with NEON, without `sdot`.
//!
//! The product of an unsigned and a signed byte fits into 16 bits.
#![expect(unsafe_code, reason = "intrinsics")]

use std::arch::aarch64::{
    int16x8_t, int32x4_t, vaddq_s32, vget_low_u8, vmovl_high_u8, vmovl_u8, vmulq_s16, vpaddlq_s16,
    vpaddq_s32, vreinterpretq_s8_s32, vreinterpretq_s16_u16, vreinterpretq_u8_s32,
};

use super::quarters::{Quads, signed_halves};
use super::run::Int8Kernel;
use crate::isa::Isa;
use crate::vector::Neon;

impl Quads for Neon {
    const ISA: Isa = Isa::Neon;

    type Weights = [int16x8_t; 2];
    type Quad = int16x8_t;

    #[inline(always)]
    fn vectorize_quads<K: Int8Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "neon")]
        fn run<K: Int8Kernel>(simd: Neon, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    fn weights_of(self, bytes: int32x4_t) -> [int16x8_t; 2] {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { widened(bytes) }
    }

    #[inline(always)]
    fn quad_of(self, bytes: int32x4_t) -> int16x8_t {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { widened_quad(bytes) }
    }

    #[inline(always)]
    fn dot_quarter(self, sums: int32x4_t, quad: int16x8_t, weights: [int16x8_t; 2]) -> int32x4_t {
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { sums_of_products(sums, [quad; 2], weights) }
    }

    #[inline(always)]
    fn dot_lanes(self, sums: int32x4_t, bytes: int32x4_t, weights: int32x4_t) -> int32x4_t {
        let weights = self.weights_of(weights);
        // SAFETY: a value of the type proves that the CPU has NEON.
        unsafe { sums_of_products(sums, widened_bytes(bytes), weights) }
    }
}

/// Widens signed bytes to 16 bits.
#[inline]
#[target_feature(enable = "neon")]
fn widened(bytes: int32x4_t) -> [int16x8_t; 2] {
    signed_halves(vreinterpretq_s8_s32(bytes))
}

/// Unsigned bytes as numbers of 16 bits.
#[inline]
#[target_feature(enable = "neon")]
fn widened_bytes(bytes: int32x4_t) -> [int16x8_t; 2] {
    let bytes = vreinterpretq_u8_s32(bytes);
    let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
    [vreinterpretq_s16_u16(low), vreinterpretq_s16_u16(high)]
}

/// Widens eight bytes, four bytes twice, to 16 bits.
#[inline]
#[target_feature(enable = "neon")]
fn widened_quad(bytes: int32x4_t) -> int16x8_t {
    vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(vreinterpretq_u8_s32(bytes))))
}

#[inline]
#[target_feature(enable = "neon")]
fn sums_of_products(sums: int32x4_t, bytes: [int16x8_t; 2], weights: [int16x8_t; 2]) -> int32x4_t {
    let half = |half: usize| vpaddlq_s16(vmulq_s16(bytes[half], weights[half]));
    vaddq_s32(sums, vpaddq_s32(half(0), half(1)))
}
