//! Sixteen sums without intrinsics.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use super::depthwise::{self, ChannelJob};
use super::lines;
use super::sink::{Clamp, Plus, Sink};
use super::tile::{self, DotJob};
use super::vector::{LANES, Simd};

/// Arrays, which compilers put into whatever vectors the target has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl Simd for Portable {
    type Sums = [i32; LANES];
    type Weights = [[i8; 4]; LANES];
    type Quad = [u8; 4];

    #[inline(always)]
    fn zero(self) -> [i32; LANES] {
        [0; LANES]
    }

    #[inline(always)]
    fn add(self, a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        std::array::from_fn(|lane| a[lane].wrapping_add(b[lane]))
    }

    #[inline(always)]
    fn dot(self, sums: [i32; LANES], quad: [u8; 4], weights: [[i8; 4]; LANES]) -> [i32; LANES] {
        std::array::from_fn(|lane| {
            let product = |i: usize| i32::from(quad[i]) * i32::from(weights[lane][i]);
            sums[lane].wrapping_add(product(0) + product(1) + product(2) + product(3))
        })
    }

    #[inline(always)]
    fn multiply_add(self, sums: [i32; LANES], a: [i32; LANES], b: [i32; LANES]) -> [i32; LANES] {
        std::array::from_fn(|lane| sums[lane].wrapping_add(a[lane] * b[lane]))
    }

    #[inline(always)]
    unsafe fn load(self, from: *const i32) -> [i32; LANES] {
        // SAFETY: the caller promises sixteen initialised numbers.
        unsafe { from.cast::<[i32; LANES]>().read() }
    }

    #[inline(always)]
    unsafe fn weights(self, from: *const i8) -> [[i8; 4]; LANES] {
        // SAFETY: the caller promises 64 initialised bytes.
        unsafe { from.cast::<[[i8; 4]; LANES]>().read() }
    }

    #[inline(always)]
    unsafe fn spread(self, from: *const u8) -> [u8; 4] {
        // SAFETY: the caller promises four initialised bytes.
        unsafe { from.cast::<[u8; 4]>().read() }
    }

    #[inline(always)]
    unsafe fn widen(self, from: *const u8) -> [i32; LANES] {
        // SAFETY: the caller promises sixteen initialised bytes.
        let bytes = unsafe { from.cast::<[u8; LANES]>().read() };
        bytes.map(i32::from)
    }

    #[inline(always)]
    unsafe fn widen_signed(self, from: *const i8) -> [i32; LANES] {
        // SAFETY: the caller promises sixteen initialised bytes.
        let bytes = unsafe { from.cast::<[i8; LANES]>().read() };
        bytes.map(i32::from)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut i32, sums: [i32; LANES], count: usize) {
        // SAFETY: the caller promises room for `count`, which is at most sixteen.
        unsafe { to.copy_from_nonoverlapping(sums.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn store_scaled(
        self,
        to: *mut f32,
        sums: [i32; LANES],
        scales: *const f32,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { scales.cast::<[f32; LANES]>().read() };
        let scaled: [f32; LANES] = std::array::from_fn(|lane| sums[lane] as f32 * scales[lane]);
        // SAFETY: the caller promises room for `count`, which is at most sixteen.
        unsafe { to.copy_from_nonoverlapping(scaled.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn store_clamped(
        self,
        to: *mut u8,
        sums: [i32; LANES],
        scales: *const f32,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { scales.cast::<[f32; LANES]>().read() };
        let bytes: [u8; LANES] =
            std::array::from_fn(|lane| clamp.apply(sums[lane] as f32 * scales[lane]));
        // SAFETY: the caller promises room for `count`, which is at most sixteen.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), count) };
    }

    #[inline(always)]
    unsafe fn store_summed(
        self,
        to: *mut u8,
        sums: [i32; LANES],
        scales: *const f32,
        codes: *const u8,
        plus: Plus,
        clamp: Clamp,
        count: usize,
    ) {
        // SAFETY: the caller promises sixteen scales.
        let scales = unsafe { scales.cast::<[f32; LANES]>().read() };
        let mut all = [0; LANES];
        // SAFETY: the caller promises `count` codes, which are at most sixteen.
        unsafe { codes.copy_to_nonoverlapping(all.as_mut_ptr(), count) };
        let bytes: [u8; LANES] = std::array::from_fn(|lane| {
            let more = (i32::from(all[lane]) - plus.zero) as f32 * plus.factor;
            clamp.apply(sums[lane] as f32 * scales[lane] + more)
        });
        // SAFETY: the caller promises room for `count`, which is at most sixteen.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), count) };
    }
}

tile::entries! {
    Portable = Portable,
    one [(4, 1) (2, 1) (1, 1)],
    two []
}

depthwise::entries! {
    Portable = Portable
}

lines::entries! {}
