//! Integer dot products of sixteen lanes: AVX-512 VNNI.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use std::arch::x86_64::{
    _mm512_add_ps, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_dpwssd_epi32, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_si512,
    _mm512_storeu_ps, _mm512_storeu_si512,
};
use std::ops::Range;

use updraft_simd::Isa;

use super::GROUP;
use super::quantized::Tile;
use super::quantized_inputs::Seen;
use crate::kernels::quantized::BLOCK;

/// Rows whose splines are summed together: two hide how long a product takes.
const SPLINE_ROWS: usize = 2;

/// Rows whose base branch is summed together: their weights are read once.
const BASE_ROWS: usize = 4;

/// Adds some inputs' splines to a tile's sums, `[rows][width]`.
///
/// # Panics
/// If the CPU lacks the instructions, or a tile has neither four blocks nor one.
pub(super) fn splines(tile: &Tile<'_>, inputs: Range<usize>, integers: &mut [i32]) {
    assert!(Isa::Avx512Vnni.is_available(), "AVX-512 VNNI");
    match tile.width / BLOCK {
        // SAFETY: the CPU has what the function needs, as was just asked.
        4 => unsafe { splines_of::<4>(tile, inputs, integers) },
        // SAFETY: as above.
        1 => unsafe { splines_of::<1>(tile, inputs, integers) },
        blocks => unreachable!("a tile of {blocks} blocks"),
    }
}

/// Adds the base branch to a tile's sums, `[rows][width]`.
///
/// # Panics
/// If the CPU lacks the instructions, or a tile has neither four blocks nor one.
pub(super) fn base(tile: &Tile<'_>, floats: &mut [f32]) {
    assert!(Isa::Avx512Vnni.is_available(), "AVX-512 VNNI");
    match tile.width / BLOCK {
        // SAFETY: the CPU has what the function needs, as was just asked.
        4 => unsafe { base_of::<4>(tile, floats) },
        // SAFETY: as above.
        1 => unsafe { base_of::<1>(tile, floats) },
        blocks => unreachable!("a tile of {blocks} blocks"),
    }
}

/// All `N` vectors of a tile's outputs, for all rows.
#[target_feature(enable = "avx512f,avx512vnni")]
fn splines_of<const N: usize>(tile: &Tile<'_>, inputs: Range<usize>, integers: &mut [i32]) {
    let rows = integers.len() / tile.width;
    let together = rows / SPLINE_ROWS * SPLINE_ROWS;
    for row in (0..together).step_by(SPLINE_ROWS) {
        spline_rows::<N, SPLINE_ROWS>(tile, inputs.clone(), row, integers);
    }
    for row in together..rows {
        spline_rows::<N, 1>(tile, inputs.clone(), row, integers);
    }
}

/// `N` vectors of the outputs of `R` rows, from one on.
#[target_feature(enable = "avx512f,avx512vnni")]
fn spline_rows<const N: usize, const R: usize>(
    tile: &Tile<'_>,
    inputs: Range<usize>,
    row: usize,
    integers: &mut [i32],
) {
    assert!(tile.width == N * BLOCK && inputs.end <= tile.seen.count);
    let of_input = tile.intervals * N;
    let mut coefficients = tile.splines[inputs.start * of_input..inputs.end * of_input].as_ptr();
    let integers = &mut integers[row * tile.width..][..R * N * BLOCK];
    let mut sums = [[_mm512_setzero_si512(); N]; R];
    for (sum, integers) in sums.as_flattened_mut().iter_mut().zip(integers.chunks_exact(BLOCK)) {
        // SAFETY: the slice is a vector's.
        *sum = unsafe { _mm512_loadu_si512(integers.as_ptr().cast()) };
    }
    let seen: [_; R] = std::array::from_fn(|index| {
        let place = |input| Seen::place(row + index, input);
        place(inputs.start)..place(inputs.end - 1) + 1
    });
    let mut quads = seen.clone().map(|seen| tile.seen.quads[seen].as_ptr());
    let mut windows = seen.map(|seen| tile.seen.windows[seen].as_ptr());
    for _ in inputs {
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: every row has a window in every input.
            let window = unsafe { windows[row].read() } as usize;
            // SAFETY: and a quadruple of basis values.
            let quad = unsafe { quads[row].read() };
            let quad = _mm512_set1_epi32(quad.cast_signed());
            let lanes = coefficients.wrapping_add(window * N);
            for (vector, sum) in sums.iter_mut().enumerate() {
                let place = lanes.wrapping_add(vector);
                // SAFETY: a window is that of an interval, whose coefficients are `N` vectors.
                let weights = unsafe { _mm512_loadu_si512(place.cast()) };
                *sum = _mm512_dpbusd_epi32(*sum, quad, weights);
            }
            quads[row] = quads[row].wrapping_add(GROUP);
            windows[row] = windows[row].wrapping_add(GROUP);
        }
        coefficients = coefficients.wrapping_add(of_input);
    }
    for (sum, integers) in sums.as_flattened().iter().zip(integers.chunks_exact_mut(BLOCK)) {
        // SAFETY: the slice is a vector's.
        unsafe { _mm512_storeu_si512(integers.as_mut_ptr().cast(), *sum) };
    }
}

/// All `N` vectors of a tile's outputs, for all rows.
#[target_feature(enable = "avx512f,avx512vnni")]
fn base_of<const N: usize>(tile: &Tile<'_>, floats: &mut [f32]) {
    let rows = floats.len() / tile.width;
    let together = rows / BASE_ROWS * BASE_ROWS;
    for row in (0..together).step_by(BASE_ROWS) {
        base_rows::<N, BASE_ROWS>(tile, row, floats);
    }
    for row in together..rows {
        base_rows::<N, 1>(tile, row, floats);
    }
}

/// `N` vectors of the outputs of `R` rows, from one on.
#[target_feature(enable = "avx512f,avx512vnni")]
fn base_rows<const N: usize, const R: usize>(tile: &Tile<'_>, row: usize, floats: &mut [f32]) {
    assert!(tile.width == N * BLOCK);
    let count = tile.base.len() / N;
    assert!(count > 0 && tile.base.len() == count * N);
    let pairs: [*const u32; R] = std::array::from_fn(|index| {
        let place = |pair| Seen::place_of_pair(row + index, pair);
        tile.seen.pairs[place(0)..=place(count - 1)].as_ptr()
    });
    let mut sums = [[_mm512_setzero_si512(); N]; R];
    for pair in 0..count {
        let place = tile.base.as_ptr().wrapping_add(pair * N);
        let mut weights = [_mm512_setzero_si512(); N];
        for (vector, weights) in weights.iter_mut().enumerate() {
            // SAFETY: a pair of inputs has `N` vectors of weights.
            *weights = unsafe { _mm512_loadu_si512(place.wrapping_add(vector).cast()) };
        }
        for (sums, pairs) in sums.iter_mut().zip(pairs) {
            // SAFETY: a row has values of every pair of inputs.
            let both = unsafe { pairs.wrapping_add(pair * GROUP).read() };
            let values = _mm512_set1_epi32(both.cast_signed());
            for (sum, &weights) in sums.iter_mut().zip(&weights) {
                *sum = _mm512_dpwssd_epi32(*sum, values, weights);
            }
        }
    }
    for (index, sums) in sums.into_iter().enumerate() {
        let row = row + index;
        let step = _mm512_set1_ps(tile.seen.steps[row]);
        let own = &mut floats[row * tile.width..][..N * BLOCK];
        for (to, sum) in own.chunks_exact_mut(BLOCK).zip(sums) {
            // Rounded twice, as without intrinsics.
            let share = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), step);
            // SAFETY: the slice is a vector's.
            let before = unsafe { _mm512_loadu_ps(to.as_ptr()) };
            let sum = _mm512_add_ps(before, share);
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), sum) };
        }
    }
}
