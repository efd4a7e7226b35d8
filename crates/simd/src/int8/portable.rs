//! Int8 dot products in portable Rust: sixteen lanes without intrinsics.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use super::lanes::{INT8_LANES, Int8};
use super::requantize::{Clamp, Plus};
use super::run::Int8Kernel;
use crate::isa::Isa;
use crate::vector::Portable;

/// Arrays, which the compiler can vectorize for the target.
type Array = [i32; INT8_LANES];

impl Int8 for Portable {
    const ISA: Isa = Isa::Portable;

    type Lanes = Array;
    type Weights = [[i8; 4]; INT8_LANES];
    type Quad = [u8; 4];

    /// One function for each kernel: several in one body are not vectorized, which took 2.4 times as
    /// long for a row by a matrix.
    #[inline(never)]
    fn vectorize<K: Int8Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn zero(self) -> Array {
        [0; INT8_LANES]
    }

    #[inline(always)]
    fn splat(self, value: i32) -> Array {
        [value; INT8_LANES]
    }

    #[inline(always)]
    fn add(self, a: Array, b: Array) -> Array {
        std::array::from_fn(|lane| a[lane].wrapping_add(b[lane]))
    }

    #[inline(always)]
    fn dot(self, sums: Array, quad: [u8; 4], weights: [[i8; 4]; INT8_LANES]) -> Array {
        std::array::from_fn(|lane| {
            let product = |i: usize| i32::from(quad[i]) * i32::from(weights[lane][i]);
            sums[lane].wrapping_add(product(0) + product(1) + product(2) + product(3))
        })
    }

    #[inline(always)]
    fn dot_within_16_bits(self, sums: Array, bytes: Array, weights: Array) -> Array {
        std::array::from_fn(|lane| {
            let bytes = bytes[lane].to_le_bytes().map(i32::from);
            let weights = weights[lane].to_le_bytes().map(|weight| i32::from(weight.cast_signed()));
            let product = |i: usize| bytes[i] * weights[i];
            sums[lane].wrapping_add(product(0) + product(1) + product(2) + product(3))
        })
    }

    #[inline(always)]
    fn dot_pairs(self, sums: Array, a: Array, b: Array) -> Array {
        std::array::from_fn(|lane| {
            let (a, b) = (a[lane], b[lane]);
            let low = i32::from(a as i16) * i32::from(b as i16);
            sums[lane].wrapping_add(low).wrapping_add((a >> 16) * (b >> 16))
        })
    }

    #[inline(always)]
    fn multiply_add(self, sums: Array, a: Array, b: Array) -> Array {
        std::array::from_fn(|lane| sums[lane].wrapping_add(a[lane] * b[lane]))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const i32) -> Array {
        // SAFETY: the caller promises sixteen initialised numbers.
        unsafe { from.cast::<Array>().read() }
    }

    #[inline(always)]
    unsafe fn weights(self, from: *const i8) -> [[i8; 4]; INT8_LANES] {
        // SAFETY: the caller promises 64 initialised bytes.
        unsafe { from.cast::<[[i8; 4]; INT8_LANES]>().read() }
    }

    #[inline(always)]
    unsafe fn quad(self, from: *const u8) -> [u8; 4] {
        // SAFETY: the caller promises four initialised bytes.
        unsafe { from.cast::<[u8; 4]>().read() }
    }

    #[inline(always)]
    unsafe fn widen(self, from: *const u8) -> Array {
        // SAFETY: the caller promises sixteen initialised bytes.
        let bytes = unsafe { from.cast::<[u8; INT8_LANES]>().read() };
        bytes.map(i32::from)
    }

    #[inline(always)]
    unsafe fn widen_signed(self, from: *const i8) -> Array {
        // SAFETY: the caller promises sixteen initialised bytes.
        let bytes = unsafe { from.cast::<[i8; INT8_LANES]>().read() };
        bytes.map(i32::from)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32, sums: Array, count: usize) {
        // SAFETY: the caller promises room for `count`, which is at most sixteen.
        unsafe { to.copy_from_nonoverlapping(sums.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn add_scaled(self, to: *mut f32, sums: Array, factor: f32) {
        let to = to.cast::<[f32; INT8_LANES]>();
        // SAFETY: the caller promises sixteen numbers.
        let before = unsafe { to.read() };
        let after = std::array::from_fn(|lane| before[lane] + sums[lane] as f32 * factor);
        // SAFETY: the caller promises sixteen numbers.
        unsafe { to.write(after) };
    }

    #[inline(always)]
    unsafe fn store_scaled(self, to: *mut f32, sums: Array, scales: *const f32, count: usize) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { scales.cast::<[f32; INT8_LANES]>().read() };
        let scaled: [f32; INT8_LANES] =
            std::array::from_fn(|lane| sums[lane] as f32 * scales[lane]);
        // SAFETY: the caller promises room for `count`, which is at most sixteen.
        unsafe { to.copy_from_nonoverlapping(scaled.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn store_clamped(
        self,
        to: *mut u8,
        sums: Array,
        scales: *const f32,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { scales.cast::<[f32; INT8_LANES]>().read() };
        let bytes: [u8; INT8_LANES] =
            std::array::from_fn(|lane| clamp.apply(sums[lane] as f32 * scales[lane]));
        // SAFETY: the caller promises room for `count`, which is at most sixteen.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn store_summed(
        self,
        to: *mut u8,
        sums: Array,
        scales: *const f32,
        codes: *const u8,
        plus: Plus,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { scales.cast::<[f32; INT8_LANES]>().read() };
        let mut all = [0; INT8_LANES];
        // SAFETY: the caller promises `count` codes, which are at most sixteen.
        unsafe { codes.copy_to_nonoverlapping(all.as_mut_ptr(), count) };
        let bytes: [u8; INT8_LANES] = std::array::from_fn(|lane| {
            let more = (i32::from(all[lane]) - plus.zero) as f32 * plus.factor;
            clamp.apply(sums[lane] as f32 * scales[lane] + more)
        });
        // SAFETY: the caller promises room for `count`, which is at most sixteen.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), count) };
    }
}
