//! Vectors of eight lanes: AVX2 with FMA.
#![expect(unsafe_code, reason = "intrinsics, and reads and writes through checked pointers")]

use std::arch::asm;
use std::arch::x86_64::{
    __m256, _CMP_EQ_UQ, _CMP_LT_OQ, _mm_cvtsi64_si128, _mm_loadu_ps, _mm_unpackhi_ps,
    _mm_unpacklo_ps, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps, _mm256_blend_epi16,
    _mm256_blendv_ps, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cmpeq_epi32, _mm256_cvtepu8_epi32,
    _mm256_cvtps_epi32, _mm256_div_ps, _mm256_floor_ps, _mm256_fmadd_ps, _mm256_hadd_ps,
    _mm256_loadu_ps, _mm256_loadu_si256, _mm256_max_ps, _mm256_min_ps, _mm256_movemask_ps,
    _mm256_mul_ps, _mm256_or_si256, _mm256_permute_ps, _mm256_permute2f128_ps, _mm256_set_m128,
    _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_slli_epi32,
    _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
};

use super::Simd;
use crate::dispatch::Kernel;
use crate::isa::Isa;

/// The indices of the set bits of a byte, in ascending order: one byte each, the first lowest.
static BITS_OF: [u64; 256] = bits_of_bytes();

/// The number of set bits of a byte: AVX2 has no instruction that counts them.
static COUNT_OF: [u8; 256] = counts_of_bytes();

/// Proof that the CPU has AVX2 and FMA.
#[derive(Debug, Clone, Copy)]
pub struct Avx2(());

impl Simd for Avx2 {
    type Vector = __m256;

    const ISA: Isa = Isa::Avx2;

    #[inline(always)]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma")]
        fn run<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: a value of the type proves that the CPU has them.
        unsafe { run(self, kernel) }
    }

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
    fn multiply(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_mul_ps(a, b) }
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
    fn subtract(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn divide(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn floor(self, a: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_floor_ps(a) }
    }

    #[inline(always)]
    fn smaller(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_min_ps(a, b) }
    }

    #[inline(always)]
    fn larger(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn where_below(self, [a, b]: [__m256; 2], then: __m256, otherwise: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let is_below = unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_blendv_ps(otherwise, then, is_below) }
    }

    #[inline(always)]
    fn unless_differs(self, [a, b]: [__m256; 2], then: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let is_equal = unsafe { _mm256_cmp_ps::<_CMP_EQ_UQ>(a, b) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_and_ps(is_equal, then) }
    }

    #[inline(always)]
    fn power_of_two(self, n: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let whole = unsafe { _mm256_cvtps_epi32(n) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let bias = unsafe { _mm256_set1_epi32(127) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let biased = unsafe { _mm256_add_epi32(whole, bias) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let exponent = unsafe { _mm256_slli_epi32::<23>(biased) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_castsi256_ps(exponent) }
    }

    #[inline(always)]
    fn write_whole(self, to: &mut [u32], numbers: __m256) {
        let place = to[..8].as_mut_ptr();
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let whole = unsafe { _mm256_cvtps_epi32(numbers) };
        // SAFETY: the slice has room for eight.
        unsafe { _mm256_storeu_si256(place.cast(), whole) };
    }

    #[inline(always)]
    fn write_bytes(self, to: &mut [u32], [one, two, three, four]: [__m256; 4]) {
        let place = to[..8].as_mut_ptr();
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let mut bytes = unsafe { _mm256_cvtps_epi32(four) };
        for lower in [three, two, one] {
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            let moved = unsafe { _mm256_slli_epi32::<8>(bytes) };
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            let lower = unsafe { _mm256_cvtps_epi32(lower) };
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            bytes = unsafe { _mm256_or_si256(moved, lower) };
        }
        // SAFETY: the slice has room for eight.
        unsafe { _mm256_storeu_si256(place.cast(), bytes) };
    }

    #[inline(always)]
    fn write_pairs(self, to: &mut [u32], [low, high]: [__m256; 2]) {
        let place = to[..8].as_mut_ptr();
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let low = unsafe { _mm256_cvtps_epi32(low) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let high = unsafe { _mm256_cvtps_epi32(high) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let high = unsafe { _mm256_slli_epi32::<16>(high) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let pairs = unsafe { _mm256_blend_epi16::<0b1010_1010>(low, high) };
        // SAFETY: the slice has room for eight.
        unsafe { _mm256_storeu_si256(place.cast(), pairs) };
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
    unsafe fn sums(self, from: *const f32) -> __m256 {
        let mut quads = [self.zero(); 2];
        for (index, quad) in quads.iter_mut().enumerate() {
            let mut rows = [self.zero(); 4];
            for (row, vector) in rows.iter_mut().enumerate() {
                // SAFETY: the caller promises every vector.
                *vector = unsafe { self.load(from.wrapping_add((4 * index + row) * 8)) };
            }
            let [a, b, c, d] = rows;
            *quad = self.pairs(self.pairs(a, b), self.pairs(c, d));
        }
        let [a, b] = quads;
        self.add(self.halves::<0x20>(a, b), self.halves::<0x31>(a, b))
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

    #[inline(always)]
    fn swap_neighbors(self, a: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_permute_ps::<0b10_11_00_01>(a) }
    }

    #[inline(always)]
    unsafe fn load_twice(self, from: *const f32) -> __m256 {
        // SAFETY: the caller promises four numbers.
        let half = unsafe { _mm_loadu_ps(from) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let low = unsafe { _mm_unpacklo_ps(half, half) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let high = unsafe { _mm_unpackhi_ps(half, half) };
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_set_m128(high, low) }
    }

    #[inline(always)]
    fn indices_of(self, keys: &[u32], wanted: u32, to: &mut [u32]) -> usize {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        let wanted_in_all = unsafe { _mm256_set1_epi32(wanted as i32) };
        let (whole, rest) = keys.as_chunks::<8>();
        let mut found = 0;
        for (index, keys) in whole.iter().enumerate() {
            // SAFETY: these are eight numbers.
            let keys = unsafe { _mm256_loadu_si256(keys.as_ptr().cast()) };
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            let hits = unsafe { _mm256_cmpeq_epi32(keys, wanted_in_all) };
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            let hits = unsafe { _mm256_castsi256_ps(hits) };
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            let hits = unsafe { _mm256_movemask_ps(hits) } as usize & 255;
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            let lanes = unsafe { _mm_cvtsi64_si128(BITS_OF[hits] as i64) };
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            let lanes = unsafe { _mm256_cvtepu8_epi32(lanes) };
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            let first = unsafe { _mm256_set1_epi32(8 * index as i32) };
            // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
            let indices = unsafe { _mm256_add_epi32(first, lanes) };
            let place = to[found..found + 8].as_mut_ptr();
            // SAFETY: the slice has room for eight.
            unsafe { _mm256_storeu_si256(place.cast(), indices) };
            found += usize::from(COUNT_OF[hits]);
        }
        for (index, &key) in rest.iter().enumerate() {
            to[found] = (8 * whole.len() + index) as u32;
            found += usize::from(key == wanted);
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

impl Avx2 {
    /// The proof, if this CPU has them.
    #[must_use]
    pub fn detect() -> Option<Self> {
        Isa::Avx2.is_available().then_some(Self(()))
    }

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

    /// Sums of neighbors, of `a` and `b` in turn.
    #[inline(always)]
    fn pairs(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: a value of the type proves that the CPU has AVX2 and FMA.
        unsafe { _mm256_hadd_ps(a, b) }
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

const fn bits_of_bytes() -> [u64; 256] {
    let mut bits = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut found) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                bits[byte] |= bit << (8 * found);
                found += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    bits
}

const fn counts_of_bytes() -> [u8; 256] {
    let mut counts = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        counts[byte] = (byte as u8).count_ones() as u8;
        byte += 1;
    }
    counts
}
