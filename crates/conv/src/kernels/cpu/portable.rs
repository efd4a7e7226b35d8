//! Vectors without intrinsics.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use super::depthwise;
use super::function;
use super::gradient::{self, WeightJob};
use super::gradient_line::{self, LineWeightJob};
use super::image;
use super::line::{self, LineJob};
use super::norm;
use super::plane::{self, PlaneJob};
use super::pool;
use super::sum;
use super::tile::{self, TileJob};
use super::vector::Simd;
use super::winograd;
use crate::kernels::{Activation, PoolGeometry, Pooling};

/// Eight numbers, which compilers put into whatever vectors the target has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl Simd for Portable {
    type Vector = [f32; 8];

    const LANES: usize = 8;

    #[inline(always)]
    fn zero(self) -> [f32; 8] {
        [0.0; 8]
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 8] {
        [value; 8]
    }

    #[inline(always)]
    fn multiply_add(self, sum: [f32; 8], a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        let mut result = sum;
        for lane in 0..8 {
            result[lane] += a[lane] * b[lane];
        }
        result
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
    fn is_zero(self, vector: [f32; 8]) -> bool {
        vector == [0.0; 8]
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> [f32; 8] {
        // SAFETY: the caller promises eight initialised numbers; f32s need no more alignment.
        unsafe { from.cast::<[f32; 8]>().read() }
    }

    #[inline(always)]
    unsafe fn load_last(self, from: *const f32, count: usize) -> [f32; 8] {
        let mut numbers = [0.0; 8];
        for (lane, number) in numbers.iter_mut().enumerate().skip(8 - count) {
            // SAFETY: the caller promises these numbers.
            *number = unsafe { from.wrapping_add(lane).read() };
        }
        numbers
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: [f32; 8]) {
        // SAFETY: the caller promises eight numbers of its own; f32s need no more alignment.
        unsafe { to.cast::<[f32; 8]>().write(vector) };
    }

    #[inline(always)]
    unsafe fn store_last(self, to: *mut f32, vector: [f32; 8], count: usize) {
        if count == Self::LANES {
            // SAFETY: the caller promises all of them.
            return unsafe { self.store(to, vector) };
        }
        for (lane, number) in vector.into_iter().enumerate().skip(8 - count) {
            // SAFETY: the caller promises these numbers.
            unsafe { to.wrapping_add(lane).write(number) };
        }
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

tile::entries! {
    Portable = Portable,
    one [8 7 6 5 4 3 2 1],
    two [4 3 2 1]
}

gradient::entries! {
    Portable = Portable,
    triples one [2 1] two [1],
    singles one [4 2 1] two [4 2 1]
}

image::entries! {
    Portable = Portable
}

gradient_line::entries! {
    Portable = Portable
}

line::entries! {
    Portable = Portable,
    2 by 2
}

function::entries! {}

norm::entries! {}

pool::entries! {}

sum::entries! {}

winograd::entries! {
    Portable = Portable
}

depthwise::entries! {
    Portable = Portable
}

plane::entries! {
    Portable = Portable
}
