//! Integer products of eight lanes: AVX2.
//!
//! The instruction that multiplies bytes sums two products in 16 bits and saturates there. Here it
//! never does: the taps stand in an order in which the two of a sum belong to bases that add up to
//! at most 2/3, which is 256 steps with rounding, and 256·127 is less than 2¹⁵.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use std::arch::x86_64::{
    _mm256_add_epi32, _mm256_add_ps, _mm256_cvtepi32_ps, _mm256_loadu_ps, _mm256_loadu_si256,
    _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_mul_ps, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setzero_si256, _mm256_storeu_ps, _mm256_storeu_si256,
};
use std::ops::Range;

use updraft_simd::Isa;

use super::GROUP;
use super::quantized::Tile;
use super::quantized_inputs::Seen;
use crate::kernels::quantized::BLOCK;

/// Numbers of a vector.
const LANES: usize = 8;

/// Adds some inputs' splines to a tile's sums, `[rows][width]`.
///
/// # Panics
/// If the CPU lacks the instructions, or a tile has neither four blocks nor one.
pub(super) fn splines(tile: &Tile<'_>, inputs: Range<usize>, integers: &mut [i32]) {
    assert!(Isa::Avx2.is_available(), "AVX2");
    match tile.width / BLOCK {
        // SAFETY: the CPU has what the function needs, as was just asked.
        4 => unsafe { splines_of::<8>(tile, inputs, integers) },
        // SAFETY: as above.
        1 => unsafe { splines_of::<2>(tile, inputs, integers) },
        blocks => unreachable!("a tile of {blocks} blocks"),
    }
}

/// Adds the base branch to a tile's sums, `[rows][width]`.
///
/// # Panics
/// If the CPU lacks the instructions, or a tile has neither four blocks nor one.
pub(super) fn base(tile: &Tile<'_>, floats: &mut [f32]) {
    assert!(Isa::Avx2.is_available(), "AVX2");
    match tile.width / BLOCK {
        // SAFETY: the CPU has what the function needs, as was just asked.
        4 => unsafe { base_of::<8>(tile, floats) },
        // SAFETY: as above.
        1 => unsafe { base_of::<2>(tile, floats) },
        blocks => unreachable!("a tile of {blocks} blocks"),
    }
}

/// All `N` vectors of a tile's outputs, row by row.
#[target_feature(enable = "avx2")]
fn splines_of<const N: usize>(tile: &Tile<'_>, inputs: Range<usize>, integers: &mut [i32]) {
    assert!(tile.width == N * LANES && inputs.end <= tile.seen.count);
    let blocks = tile.width / BLOCK;
    let of_input = tile.intervals * blocks;
    let coefficients = tile.splines[inputs.start * of_input..inputs.end * of_input].as_ptr();
    let ones = _mm256_set1_epi16(1);
    for (row, integers) in integers.chunks_exact_mut(N * LANES).enumerate() {
        let seen = Seen::place(row, inputs.start)..Seen::place(row, inputs.end - 1) + 1;
        let mut quads = tile.seen.quads[seen.clone()].as_ptr();
        let mut windows = tile.seen.windows[seen].as_ptr();
        let mut coefficients = coefficients;
        let places: [*mut i32; N] =
            std::array::from_fn(|vector| integers.as_mut_ptr().wrapping_add(vector * LANES));
        let mut sums = [_mm256_setzero_si256(); N];
        for (sum, place) in sums.iter_mut().zip(places) {
            // SAFETY: the row has `N` vectors.
            *sum = unsafe { _mm256_loadu_si256(place.cast()) };
        }
        for _ in inputs.clone() {
            // SAFETY: a row has a window in every input.
            let window = unsafe { windows.read() } as usize;
            // SAFETY: and a quadruple of basis values.
            let quad = unsafe { quads.read() };
            let quad = _mm256_set1_epi32(quad.cast_signed());
            let lanes = coefficients.wrapping_add(window * blocks).cast::<i8>();
            for (vector, sum) in sums.iter_mut().enumerate() {
                let place = lanes.wrapping_add(vector * LANES * 4);
                // SAFETY: a window is that of an interval, which has coefficients for all outputs.
                let weights = unsafe { _mm256_loadu_si256(place.cast()) };
                let pairs = _mm256_maddubs_epi16(quad, weights);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
            }
            quads = quads.wrapping_add(GROUP);
            windows = windows.wrapping_add(GROUP);
            coefficients = coefficients.wrapping_add(of_input);
        }
        for (sum, place) in sums.into_iter().zip(places) {
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(place.cast(), sum) };
        }
    }
}

/// All `N` vectors of a tile's outputs, row by row.
#[target_feature(enable = "avx2")]
fn base_of<const N: usize>(tile: &Tile<'_>, floats: &mut [f32]) {
    let blocks = tile.width / BLOCK;
    let count = tile.base.len() / blocks;
    assert!(tile.width == N * LANES && count > 0 && tile.base.len() == count * blocks);
    for (row, floats) in floats.chunks_exact_mut(N * LANES).enumerate() {
        let seen = Seen::place_of_pair(row, 0)..=Seen::place_of_pair(row, count - 1);
        let mut pairs = tile.seen.pairs[seen].as_ptr();
        let mut weights = tile.base.as_ptr().cast::<[i16; 2]>();
        let mut sums = [_mm256_setzero_si256(); N];
        for _ in 0..count {
            // SAFETY: a row has values of every pair of inputs.
            let values = unsafe { pairs.read() };
            let values = _mm256_set1_epi32(values.cast_signed());
            for (vector, sum) in sums.iter_mut().enumerate() {
                let place = weights.wrapping_add(vector * LANES);
                // SAFETY: a pair of inputs has weights for all outputs.
                let weights = unsafe { _mm256_loadu_si256(place.cast()) };
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(values, weights));
            }
            pairs = pairs.wrapping_add(GROUP);
            weights = weights.wrapping_add(tile.width);
        }
        let step = _mm256_set1_ps(tile.seen.steps[row]);
        for (to, sum) in floats.chunks_exact_mut(LANES).zip(sums) {
            // Rounded twice, as without intrinsics.
            let share = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), step);
            // SAFETY: the slice is a vector's.
            let before = unsafe { _mm256_loadu_ps(to.as_ptr()) };
            let sum = _mm256_add_ps(before, share);
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), sum) };
        }
    }
}
