//! Vectors of sixteen lanes: AVX-512 F.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_castpd_ps, _mm512_castps_pd, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps,
    _mm512_unpacklo_pd, _mm512_unpacklo_ps,
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

/// Proof that the CPU has AVX-512 F and VL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512(());

impl Simd for Avx512 {
    type Vector = __m512;

    const LANES: usize = 16;

    #[inline(always)]
    fn zero(self) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    fn multiply_add(self, sum: __m512, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_fmadd_ps(a, b, sum) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn is_zero(self, vector: __m512) -> bool {
        let mut numbers = [0.0; 16];
        // SAFETY: there is room for sixteen numbers.
        unsafe { self.store(numbers.as_mut_ptr(), vector) };
        numbers == [0.0; 16]
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: the caller promises sixteen initialised numbers.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_last(self, from: *const f32, count: usize) -> __m512 {
        let lanes = u16::MAX << (16 - count);
        // SAFETY: the caller promises these numbers.
        unsafe { _mm512_maskz_loadu_ps(lanes, from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: __m512) {
        // SAFETY: the caller promises sixteen numbers of its own.
        unsafe { _mm512_storeu_ps(to, vector) };
    }

    #[inline(always)]
    unsafe fn store_last(self, to: *mut f32, vector: __m512, count: usize) {
        let lanes = u16::MAX << (16 - count);
        // SAFETY: the caller promises these numbers.
        unsafe { _mm512_mask_storeu_ps(to, lanes, vector) };
    }

    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_pitch: usize, to: *mut f32, to_pitch: usize) {
        let mut rows = [self.zero(); 16];
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

impl Avx512 {
    /// Interleaves pairs, then quadruples within the 128-bit parts, then the parts.
    #[inline(always)]
    fn transposed(self, rows: [__m512; 16]) -> [__m512; 16] {
        let mut pairs = rows;
        for i in (0..16).step_by(2) {
            pairs[i] = self.low(rows[i], rows[i + 1]);
            pairs[i + 1] = self.high(rows[i], rows[i + 1]);
        }
        // quads[4k + j], part p: column 4p + j of rows 4k to 4k + 3.
        let mut quads = pairs;
        for i in (0..16).step_by(4) {
            quads[i] = self.low_pair(pairs[i], pairs[i + 2]);
            quads[i + 1] = self.high_pair(pairs[i], pairs[i + 2]);
            quads[i + 2] = self.low_pair(pairs[i + 1], pairs[i + 3]);
            quads[i + 3] = self.high_pair(pairs[i + 1], pairs[i + 3]);
        }
        let mut columns = rows;
        for j in 0..4 {
            let [a, b, c, d] = [quads[j], quads[4 + j], quads[8 + j], quads[12 + j]];
            let (ab_even, ab_odd) = (self.parts::<0x88>(a, b), self.parts::<0xDD>(a, b));
            let (cd_even, cd_odd) = (self.parts::<0x88>(c, d), self.parts::<0xDD>(c, d));
            columns[j] = self.parts::<0x88>(ab_even, cd_even);
            columns[4 + j] = self.parts::<0x88>(ab_odd, cd_odd);
            columns[8 + j] = self.parts::<0xDD>(ab_even, cd_even);
            columns[12 + j] = self.parts::<0xDD>(ab_odd, cd_odd);
        }
        columns
    }

    #[inline(always)]
    fn low(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_unpacklo_ps(a, b) }
    }

    #[inline(always)]
    fn high(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_unpackhi_ps(a, b) }
    }

    #[inline(always)]
    fn low_pair(self, a: __m512, b: __m512) -> __m512 {
        let (a, b) = (self.doubles(a), self.doubles(b));
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        self.singles(unsafe { _mm512_unpacklo_pd(a, b) })
    }

    #[inline(always)]
    fn high_pair(self, a: __m512, b: __m512) -> __m512 {
        let (a, b) = (self.doubles(a), self.doubles(b));
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        self.singles(unsafe { _mm512_unpackhi_pd(a, b) })
    }

    #[inline(always)]
    fn doubles(self, a: __m512) -> std::arch::x86_64::__m512d {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_castps_pd(a) }
    }

    #[inline(always)]
    fn singles(self, a: std::arch::x86_64::__m512d) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_castpd_ps(a) }
    }

    #[inline(always)]
    fn parts<const CHOICE: i32>(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_shuffle_f32x4::<CHOICE>(a, b) }
    }
}

tile::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
    Avx512 = Avx512(()),
    one [28 24 20 16 14 12 10 8 7 6 5 4 3 2 1],
    two [14 12 10 8 7 6 5 4 3 2 1]
}

gradient::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
    Avx512 = Avx512(()),
    triples one [8 4 2 1] two [4 2 1],
    singles one [12 8 4 2 1] two [12 8 4 2 1]
}

image::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
    Avx512 = Avx512(())
}

gradient_line::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
    Avx512 = Avx512(())
}

line::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
    Avx512 = Avx512(()),
    8 by 3
}

function::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
}

norm::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
}

pool::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
}

sum::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
}

winograd::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
    Avx512 = Avx512(())
}

depthwise::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
    Avx512 = Avx512(())
}

plane::entries! {
    #[target_feature(enable = "avx512f,avx512vl")]
    Avx512 = Avx512(())
}
