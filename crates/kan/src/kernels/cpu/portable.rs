//! Vectors without intrinsics.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use super::flush::Flush;
use super::forward::{self, ForwardJob};
use super::gradient::{self, GradientJob};
use super::vector::Simd;
use crate::kernels::scratch::Workspace;

/// Eight numbers, which compilers put into whatever vectors the target has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl Simd for Portable {
    type Vector = [f32; 8];

    const LANES: usize = 8;
    const TILE: usize = 1;
    const OUTPUTS: usize = 1;

    #[inline(always)]
    fn zero(self) -> [f32; 8] {
        [0.0; 8]
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn multiply(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        let mut result = a;
        for lane in 0..8 {
            result[lane] *= b[lane];
        }
        result
    }

    #[inline(always)]
    fn multiply_add(self, sum: [f32; 8], a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        self.add(sum, self.multiply(a, b))
    }

    #[inline(always)]
    fn add(self, a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        let mut result = a;
        for lane in 0..8 {
            result[lane] += b[lane];
        }
        result
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> [f32; 8] {
        // SAFETY: the caller promises eight initialised numbers; f32s need no more alignment.
        unsafe { from.cast::<[f32; 8]>().read() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: [f32; 8]) {
        // SAFETY: the caller promises eight numbers of its own; f32s need no more alignment.
        unsafe { to.cast::<[f32; 8]>().write(vector) };
    }

    #[inline(always)]
    unsafe fn sums(self, from: *const f32) -> [f32; 8] {
        let mut sums = [0.0; 8];
        for (index, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises every vector.
            let [a, b, c, d, e, f, g, h] = unsafe { self.load(from.wrapping_add(index * 8)) };
            *sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
        }
        sums
    }

    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize) {
        for row in 0..8 {
            // SAFETY: the caller promises every row.
            let line = unsafe { self.load(from.wrapping_add(row * from_pitch)) };
            for (column, value) in line.into_iter().enumerate() {
                // SAFETY: the caller promises every column.
                unsafe { to.wrapping_add(column * to_pitch + row).write(value) };
            }
        }
    }
}

forward::entries! {
    Portable = Portable
}

gradient::entries! {
    Portable = Portable
}
