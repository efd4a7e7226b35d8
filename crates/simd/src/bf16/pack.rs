//! Numbers in f32 rounded to bf16, and tiles of them.
#![expect(unsafe_code, reason = "squares are transposed through pointers")]

#[cfg(target_arch = "x86_64")]
use super::convert::Convert;
use super::{TILE_LANES, TILE_TERMS, Tile};
use crate::vector::Simd;
use crate::{Isa, dispatch};

/// A factor of a product, some rows of numbers in memory that lie `pitch` apart.
#[derive(Debug, Clone, Copy)]
pub struct Factor<'a> {
    /// From the first number on.
    pub numbers: &'a [f32],
    /// Numbers from row to row.
    pub pitch: usize,
    /// Whether the numbers of a row are terms of one lane; else they are the lanes of one term.
    pub rows_are_lanes: bool,
}

dispatch! {
    /// Packs lanes as tiles of a left factor, `[tile of terms]`; lanes and terms that are not there
    /// are zeros.
    pub fn pack_left(simd, factor: Factor<'_>, first: [usize; 2], count: [usize; 2], to: &mut [Tile]) {
        pack(simd, factor, first, count, true, to);
    }

    /// Packs lanes as tiles of a right factor.
    pub fn pack_right(simd, factor: Factor<'_>, first: [usize; 2], count: [usize; 2], to: &mut [Tile]) {
        pack(simd, factor, first, count, false, to);
    }

    /// Rounds numbers to the nearest of bf16, of two equally near ones to the even.
    pub fn round_to_bf16(_simd, numbers: &[f32], to: &mut [f32]) {
        for (to, &number) in to.iter_mut().zip(numbers) {
            *to = f32::from_bits(bf16_bits(number) << 16);
        }
    }
}

#[inline(always)]
fn pack<S: Simd>(
    simd: S,
    factor: Factor<'_>,
    [first, first_term]: [usize; 2],
    [lanes, terms]: [usize; 2],
    lanes_first: bool,
    to: &mut [Tile],
) {
    for (tile, to) in to.iter_mut().enumerate() {
        let term = tile * TILE_TERMS;
        let terms = TILE_TERMS.min(terms - term);
        let at = [first, first_term + term];
        let mut tile = Tile::default();
        let count = [lanes, terms];
        if !convert(S::ISA, factor, at, count, &mut tile) {
            match factor.rows_are_lanes {
                true => lanes_of_rows(factor, at, count, &mut tile),
                false => terms_of_rows(factor, at, count, &mut tile),
            }
        }
        if factor.rows_are_lanes == lanes_first {
            *to = tile;
        } else {
            transpose(simd, &tile, to);
        }
    }
}

/// Rounds a whole tile by an instruction for it, and returns whether the set and the CPU have one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn convert(isa: Isa, factor: Factor<'_>, at: [usize; 2], count: [usize; 2], to: &mut Tile) -> bool {
    if isa != Isa::Avx512 || count != [TILE_LANES, TILE_TERMS] {
        return false;
    }
    let Some(convert) = Convert::detect() else { return false };
    let [lane, term] = at;
    let [row, column] = if factor.rows_are_lanes { [lane, term] } else { [term, lane] };
    let rows = &factor.numbers[row * factor.pitch + column..];
    match factor.rows_are_lanes {
        true => convert.lanes_of_rows(rows, factor.pitch, to),
        false => convert.terms_of_rows(rows, factor.pitch, to),
    }
    true
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn convert(_: Isa, _: Factor<'_>, _: [usize; 2], _: [usize; 2], _: &mut Tile) -> bool {
    false
}

/// `[lane][pair]`.
#[inline(always)]
fn lanes_of_rows(factor: Factor<'_>, [lane, term]: [usize; 2], count: [usize; 2], to: &mut Tile) {
    let [lanes, terms] = count;
    for (row, to) in to.0.as_chunks_mut::<TILE_LANES>().0.iter_mut().take(lanes).enumerate() {
        let from = &factor.numbers[(lane + row) * factor.pitch + term..][..terms];
        if let Ok(from) = <&[f32; TILE_TERMS]>::try_from(from) {
            let (pairs, _) = from.as_chunks::<2>();
            for (to, &[low, high]) in to.iter_mut().zip(pairs) {
                *to = bf16_bits(low) | bf16_bits(high) << 16;
            }
            continue;
        }
        for (to, pair) in to.iter_mut().zip(from.chunks(2)) {
            *to = bf16_bits(pair[0]) | bf16_bits(pair.get(1).copied().unwrap_or(0.0)) << 16;
        }
    }
}

/// `[pair][lane]`.
#[inline(always)]
fn terms_of_rows(factor: Factor<'_>, [lane, term]: [usize; 2], count: [usize; 2], to: &mut Tile) {
    let [lanes, terms] = count;
    let row = |k: usize| &factor.numbers[(term + k) * factor.pitch + lane..][..lanes];
    for (pair, to) in to.0.as_chunks_mut::<TILE_LANES>().0.iter_mut().enumerate() {
        if 2 * pair >= terms {
            break;
        }
        let low = row(2 * pair);
        if 2 * pair + 1 == terms {
            for (to, &low) in to.iter_mut().zip(low) {
                *to = bf16_bits(low);
            }
            break;
        }
        let high = row(2 * pair + 1);
        let whole: Result<[&[f32; TILE_LANES]; 2], _> =
            low.try_into().and_then(|low| high.try_into().map(|high| [low, high]));
        if let Ok([low, high]) = whole {
            for lane in 0..TILE_LANES {
                to[lane] = bf16_bits(low[lane]) | bf16_bits(high[lane]) << 16;
            }
            continue;
        }
        for ((to, &low), &high) in to.iter_mut().zip(low).zip(high) {
            *to = bf16_bits(low) | bf16_bits(high) << 16;
        }
    }
}

#[inline(always)]
fn transpose<S: Simd>(simd: S, from: &Tile, to: &mut Tile) {
    for row in (0..TILE_LANES).step_by(S::LANES) {
        for column in (0..TILE_LANES).step_by(S::LANES) {
            let source = from.0[row * TILE_LANES + column..].as_ptr().cast();
            let target = to.0[column * TILE_LANES + row..].as_mut_ptr().cast();
            // SAFETY: both squares lie in their tiles; vectors only move bits.
            unsafe { simd.transpose(source, TILE_LANES, target, TILE_LANES) };
        }
    }
}

/// The bits of the nearest bf16, of two equally near ones the even one; NaN stays NaN, and numbers below
/// 2⁻¹²⁶ become zero.
#[must_use]
#[inline(always)]
pub fn bf16_bits(number: f32) -> u32 {
    let bits = number.to_bits();
    if bits & 0x7F80_0000 == 0 {
        return bits >> 16 & 0x8000;
    }
    let nearest = (bits.wrapping_add(0x7FFF + (bits >> 16 & 1))) >> 16;
    let is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
    if is_nan { bits >> 16 | 0x40 } else { nearest }
}
