//! Tiles rounded to bf16 by the vector instruction of AVX-512.
//!
//! # Source
//! Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, `VCVTNE2PS2BF16`: it rounds to
//! the nearest, of two equally near ones to the even, and takes numbers below 2⁻¹²⁶ for zeros.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::arch::x86_64::{
    __m512bh, __m512i, _mm512_cvtne2ps_pbh, _mm512_loadu_ps, _mm512_permutexvar_epi16,
    _mm512_set_epi16, _mm512_store_si512,
};

use super::{TILE_LANES, TILE_TERMS, Tile};

/// Proof that the CPU has the instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Convert(());

impl Convert {
    /// The proof, if this CPU has it.
    pub(super) fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512bf16");
        has_all.then_some(Self(()))
    }

    /// Rounds 16 rows of 32 terms that lie `pitch` apart, `[lane][pair]`.
    ///
    /// # Panics
    /// If they are not all in `rows`.
    pub(super) fn lanes_of_rows(self, rows: &[f32], pitch: usize, to: &mut Tile) {
        let rows = &rows[..(TILE_LANES - 1) * pitch + TILE_TERMS];
        // SAFETY: a value of the type proves that the CPU has the instructions, and all rows are there.
        unsafe { lanes_of_rows(rows.as_ptr(), pitch, to) }
    }

    /// Rounds 32 rows of 16 lanes that lie `pitch` apart, `[pair][lane]`.
    ///
    /// # Panics
    /// If they are not all in `rows`.
    pub(super) fn terms_of_rows(self, rows: &[f32], pitch: usize, to: &mut Tile) {
        let rows = &rows[..(TILE_TERMS - 1) * pitch + TILE_LANES];
        // SAFETY: a value of the type proves that the CPU has the instructions, and all rows are there.
        unsafe { terms_of_rows(rows.as_ptr(), pitch, to) }
    }
}

/// The bits of 32 numbers.
#[target_feature(enable = "avx512f")]
#[inline]
fn as_bits(numbers: __m512bh) -> __m512i {
    // SAFETY: both are vectors of 512 bits without further meaning.
    unsafe { std::mem::transmute(numbers) }
}

/// # Safety
/// The CPU has the instructions, and the rows may be read.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn lanes_of_rows(rows: *const f32, pitch: usize, to: &mut Tile) {
    for (lane, to) in to.0.as_chunks_mut::<TILE_LANES>().0.iter_mut().enumerate() {
        let row = rows.wrapping_add(lane * pitch);
        // SAFETY: the caller promises the row.
        let low = unsafe { _mm512_loadu_ps(row) };
        // SAFETY: the caller promises the row.
        let high = unsafe { _mm512_loadu_ps(row.wrapping_add(TILE_LANES)) };
        let bits = as_bits(_mm512_cvtne2ps_pbh(high, low));
        // SAFETY: a row of a tile is a vector, at an address that is a multiple of its size.
        unsafe { _mm512_store_si512(to.as_mut_ptr().cast(), bits) };
    }
}

/// # Safety
/// The CPU has the instructions, and the rows may be read.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn terms_of_rows(rows: *const f32, pitch: usize, to: &mut Tile) {
    // Of two rows side by side, the numbers of a lane next to each other.
    #[rustfmt::skip]
    let pairs = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
        23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0,
    );
    for (pair, to) in to.0.as_chunks_mut::<TILE_LANES>().0.iter_mut().enumerate() {
        let row = rows.wrapping_add(2 * pair * pitch);
        // SAFETY: the caller promises the row.
        let low = unsafe { _mm512_loadu_ps(row) };
        // SAFETY: the caller promises the row.
        let high = unsafe { _mm512_loadu_ps(row.wrapping_add(pitch)) };
        let bits = as_bits(_mm512_cvtne2ps_pbh(high, low));
        let bits = _mm512_permutexvar_epi16(pairs, bits);
        // SAFETY: a row of a tile is a vector, at an address that is a multiple of its size.
        unsafe { _mm512_store_si512(to.as_mut_ptr().cast(), bits) };
    }
}
