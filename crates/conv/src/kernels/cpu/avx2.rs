//! Vectors of eight lanes: AVX2 with FMA.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::x86_64::{
    __m256, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_permute2f128_ps,
    _mm256_set1_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps,
    _mm256_unpacklo_ps,
};

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

/// Proof that the CPU has AVX2 and FMA.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

impl Simd for Avx2 {
    type Vector = __m256;

    const LANES: usize = 8;

    #[inline(always)]
    fn zero(self) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    fn multiply_add(self, sum: __m256, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_fmadd_ps(a, b, sum) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn is_zero(self, vector: __m256) -> bool {
        let mut numbers = [0.0; 8];
        // SAFETY: there is room for eight numbers.
        unsafe { self.store(numbers.as_mut_ptr(), vector) };
        numbers == [0.0; 8]
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: the caller promises eight initialised numbers.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_last(self, from: *const f32, count: usize) -> __m256 {
        let mut numbers = [0.0; 8];
        for (lane, number) in numbers.iter_mut().enumerate().skip(8 - count) {
            // SAFETY: the caller promises these numbers.
            *number = unsafe { from.wrapping_add(lane).read() };
        }
        // SAFETY: these are eight numbers.
        unsafe { self.load(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: __m256) {
        // SAFETY: the caller promises eight numbers of its own.
        unsafe { _mm256_storeu_ps(to, vector) };
    }

    #[inline(always)]
    unsafe fn store_last(self, to: *mut f32, vector: __m256, count: usize) {
        if count == Self::LANES {
            // SAFETY: the caller promises all of them.
            return unsafe { self.store(to, vector) };
        }
        let mut numbers = [0.0; 8];
        // SAFETY: there is room for eight numbers.
        unsafe { self.store(numbers.as_mut_ptr(), vector) };
        for (lane, number) in numbers.into_iter().enumerate().skip(8 - count) {
            // SAFETY: the caller promises these numbers.
            unsafe { to.wrapping_add(lane).write(number) };
        }
    }

    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize) {
        let mut rows = [self.zero(); 8];
        for (index, row) in rows.iter_mut().enumerate() {
            // SAFETY: the caller promises every row.
            *row = unsafe { self.load(from.wrapping_add(index * from_pitch)) };
        }
        let columns = self.transposed(rows);
        for (index, column) in columns.into_iter().enumerate() {
            // SAFETY: the caller promises every column.
            unsafe { self.store(to.wrapping_add(index * to_pitch), column) };
        }
    }
}

impl Avx2 {
    /// Interleaves pairs, then quadruples within the 128-bit halves, then the halves.
    #[inline(always)]
    fn transposed(self, rows: [__m256; 8]) -> [__m256; 8] {
        let mut pairs = rows;
        for i in (0..8).step_by(2) {
            pairs[i] = self.low(rows[i], rows[i + 1]);
            pairs[i + 1] = self.high(rows[i], rows[i + 1]);
        }
        // quads[4k + j], half p: column 4p + j of rows 4k to 4k + 3.
        let mut quads = pairs;
        for i in (0..8).step_by(4) {
            quads[i] = self.quad::<0x44>(pairs[i], pairs[i + 2]);
            quads[i + 1] = self.quad::<0xEE>(pairs[i], pairs[i + 2]);
            quads[i + 2] = self.quad::<0x44>(pairs[i + 1], pairs[i + 3]);
            quads[i + 3] = self.quad::<0xEE>(pairs[i + 1], pairs[i + 3]);
        }
        let mut columns = rows;
        for j in 0..4 {
            columns[j] = self.halves::<0x20>(quads[j], quads[4 + j]);
            columns[4 + j] = self.halves::<0x31>(quads[j], quads[4 + j]);
        }
        columns
    }

    #[inline(always)]
    fn low(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_unpacklo_ps(a, b) }
    }

    #[inline(always)]
    fn high(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_unpackhi_ps(a, b) }
    }

    #[inline(always)]
    fn quad<const CHOICE: i32>(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_shuffle_ps::<CHOICE>(a, b) }
    }

    #[inline(always)]
    fn halves<const CHOICE: i32>(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_permute2f128_ps::<CHOICE>(a, b) }
    }
}

tile::entries! {
    #[target_feature(enable = "avx2,fma")]
    Avx2 = Avx2(()),
    one [12 10 8 7 6 5 4 3 2 1],
    two [6 5 4 3 2 1]
}

gradient::entries! {
    #[target_feature(enable = "avx2,fma")]
    Avx2 = Avx2(()),
    triples one [4 2 1] two [2 1],
    singles one [12 8 4 2 1] two [6 4 2 1]
}

image::entries! {
    #[target_feature(enable = "avx2,fma")]
    Avx2 = Avx2(())
}

gradient_line::entries! {
    #[target_feature(enable = "avx2,fma")]
    Avx2 = Avx2(())
}

line::entries! {
    #[target_feature(enable = "avx2,fma")]
    Avx2 = Avx2(()),
    6 by 2
}

function::entries! {
    #[target_feature(enable = "avx2,fma")]
}

norm::entries! {
    #[target_feature(enable = "avx2,fma")]
}

pool::entries! {
    #[target_feature(enable = "avx2,fma")]
}

sum::entries! {
    #[target_feature(enable = "avx2,fma")]
}

winograd::entries! {
    #[target_feature(enable = "avx2,fma")]
    Avx2 = Avx2(())
}

depthwise::entries! {
    #[target_feature(enable = "avx2,fma")]
    Avx2 = Avx2(())
}

plane::entries! {
    #[target_feature(enable = "avx2,fma")]
    Avx2 = Avx2(())
}
