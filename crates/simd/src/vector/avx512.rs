//! Vectors of sixteen lanes: AVX-512 F.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::asm;
use std::arch::x86_64::{
    __m512, __m512i, _CMP_EQ_UQ, _CMP_LT_OQ, _mm256_loadu_ps, _mm512_add_epi32, _mm512_add_ps,
    _mm512_and_si512, _mm512_castpd_ps, _mm512_castps_pd, _mm512_castps256_ps512,
    _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cvtps_epi32, _mm512_div_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_mask_blend_ps, _mm512_mask_cmpeq_epi32_mask, _mm512_mask_storeu_ps,
    _mm512_maskz_compress_epi32, _mm512_maskz_loadu_epi32, _mm512_maskz_loadu_ps,
    _mm512_maskz_mov_ps, _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_or_si512,
    _mm512_permute_ps, _mm512_permutexvar_ps, _mm512_roundscale_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_setr_epi32, _mm512_setzero_ps, _mm512_shuffle_f32x4, _mm512_slli_epi32,
    _mm512_srli_epi32, _mm512_storeu_epi32, _mm512_storeu_ps, _mm512_sub_ps, _mm512_unpackhi_pd,
    _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};

use super::Simd;
use crate::dispatch::Kernel;
use crate::isa::Isa;

/// Proof that the CPU has AVX-512 F and VL.
#[derive(Debug, Clone, Copy)]
pub struct Avx512(());

impl Simd for Avx512 {
    type Vector = __m512;

    const ISA: Isa = Isa::Avx512;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512vl")]
        fn run<K: Kernel>(simd: Avx512, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: a value of the type proves that the CPU has them.
        unsafe { run(self, kernel) }
    }

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
    fn multiply(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_mul_ps(a, b) }
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
    fn subtract(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn divide(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn floor(self, a: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_roundscale_ps::<1>(a) }
    }

    #[inline(always)]
    fn smaller(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn larger(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn where_below(self, [a, b]: [__m512; 2], then: __m512, otherwise: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let is_below = unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_mask_blend_ps(is_below, otherwise, then) }
    }

    #[inline(always)]
    fn unless_differs(self, [a, b]: [__m512; 2], then: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let is_equal = unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_UQ>(a, b) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_maskz_mov_ps(is_equal, then) }
    }

    #[inline(always)]
    fn power_of_two(self, n: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let whole = unsafe { _mm512_cvtps_epi32(n) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let biased = unsafe { _mm512_add_epi32(whole, self.integers(127)) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let exponent = unsafe { _mm512_slli_epi32::<23>(biased) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_castsi512_ps(exponent) }
    }

    #[inline(always)]
    fn write_whole(self, to: &mut [u32], numbers: __m512) {
        let place = to[..16].as_mut_ptr();
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let whole = unsafe { _mm512_cvtps_epi32(numbers) };
        // SAFETY: the slice has room for sixteen.
        unsafe { _mm512_storeu_epi32(place.cast(), whole) };
    }

    #[inline(always)]
    fn write_bytes(self, to: &mut [u32], [one, two, three, four]: [__m512; 4]) {
        let place = to[..16].as_mut_ptr();
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let mut bytes = unsafe { _mm512_cvtps_epi32(four) };
        for lower in [three, two, one] {
            // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
            let moved = unsafe { _mm512_slli_epi32::<8>(bytes) };
            // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
            let lower = unsafe { _mm512_cvtps_epi32(lower) };
            // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
            bytes = unsafe { _mm512_or_si512(moved, lower) };
        }
        // SAFETY: the slice has room for sixteen.
        unsafe { _mm512_storeu_epi32(place.cast(), bytes) };
    }

    #[inline(always)]
    fn write_pairs(self, to: &mut [u32], [low, high]: [__m512; 2]) {
        let place = to[..16].as_mut_ptr();
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let low = unsafe { _mm512_cvtps_epi32(low) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let high = unsafe { _mm512_cvtps_epi32(high) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let high = unsafe { _mm512_slli_epi32::<16>(high) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let mask = unsafe { _mm512_set1_epi32(0xFFFF) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let low = unsafe { _mm512_and_si512(low, mask) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let pairs = unsafe { _mm512_or_si512(low, high) };
        // SAFETY: the slice has room for sixteen.
        unsafe { _mm512_storeu_epi32(place.cast(), pairs) };
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
    unsafe fn sums(self, from: *const f32) -> __m512 {
        // quads[k], part p: the sums of lanes 4p to 4p + 3 of vectors 4k to 4k + 3.
        let mut quads = [self.zero(); 4];
        for (index, quad) in quads.iter_mut().enumerate() {
            let mut rows = [self.zero(); 4];
            for (row, vector) in rows.iter_mut().enumerate() {
                // SAFETY: the caller promises every vector.
                *vector = unsafe { self.load(from.wrapping_add((4 * index + row) * 16)) };
            }
            let [a, b, c, d] = rows;
            let ab = self.add(self.low(a, b), self.high(a, b));
            let cd = self.add(self.low(c, d), self.high(c, d));
            *quad = self.add(self.low_pair(ab, cd), self.high_pair(ab, cd));
        }
        let [a, b, c, d] = quads;
        let ab = self.add(self.parts::<0x88>(a, b), self.parts::<0xDD>(a, b));
        let cd = self.add(self.parts::<0x88>(c, d), self.parts::<0xDD>(c, d));
        self.add(self.parts::<0x88>(ab, cd), self.parts::<0xDD>(ab, cd))
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

    #[inline(always)]
    fn swap_neighbors(self, a: __m512) -> __m512 {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_permute_ps::<0b10_11_00_01>(a) }
    }

    #[inline(always)]
    unsafe fn load_twice(self, from: *const f32) -> __m512 {
        // SAFETY: the caller promises eight numbers.
        let half = unsafe { _mm256_loadu_ps(from) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let half = unsafe { _mm512_castps256_ps512(half) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        let places = unsafe { _mm512_srli_epi32::<1>(self.counted()) };
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_permutexvar_ps(places, half) }
    }

    #[inline(always)]
    fn read(self, from: &[f32]) -> __m512 {
        let lanes = u16::MAX.checked_shr(16_usize.saturating_sub(from.len()) as u32).unwrap_or(0);
        // SAFETY: the mask keeps to the numbers of the slice.
        unsafe { _mm512_maskz_loadu_ps(lanes, from.as_ptr()) }
    }

    #[inline(always)]
    fn write(self, to: &mut [f32], vector: __m512) {
        let lanes = u16::MAX.checked_shr(16_usize.saturating_sub(to.len()) as u32).unwrap_or(0);
        // SAFETY: the mask keeps to the numbers of the slice.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), lanes, vector) };
    }

    #[inline(always)]
    fn indices_of(self, keys: &[u32], wanted: u32, to: &mut [u32]) -> usize {
        let wanted = self.integers(wanted as i32);
        let mut indices = self.counted();
        let mut found = 0;
        for keys in keys.chunks(16) {
            let there = u16::MAX >> (16 - keys.len());
            // SAFETY: the mask keeps to the keys that there are.
            let keys = unsafe { _mm512_maskz_loadu_epi32(there, keys.as_ptr().cast()) };
            // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
            let hits = unsafe { _mm512_mask_cmpeq_epi32_mask(there, keys, wanted) };
            // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
            let hit = unsafe { _mm512_maskz_compress_epi32(hits, indices) };
            let place = to[found..found + 16].as_mut_ptr();
            // SAFETY: the slice has room for sixteen.
            unsafe { _mm512_storeu_epi32(place.cast(), hit) };
            found += hits.count_ones() as usize;
            // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
            indices = unsafe { _mm512_add_epi32(indices, self.integers(16)) };
        }
        found
    }

    #[inline(always)]
    fn one_address(self, mut place: *const f32) -> *const f32 {
        // SAFETY: no instruction at all.
        unsafe {
            asm!("/* {0} */", inout(reg) place, options(pure, readonly, nostack, preserves_flags));
        }
        place
    }
}

impl Avx512 {
    /// The proof, if this CPU has them.
    #[must_use]
    pub fn detect() -> Option<Self> {
        Isa::Avx512.is_available().then_some(Self(()))
    }

    #[inline(always)]
    fn integers(self, value: i32) -> __m512i {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_set1_epi32(value) }
    }

    /// 0 to 15.
    #[inline(always)]
    fn counted(self) -> __m512i {
        // SAFETY: a value of the type proves that the CPU has AVX-512F and VL.
        unsafe { _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) }
    }

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
