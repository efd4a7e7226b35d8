//! Integer dot products of eight lanes: AVX2.
//!
//! The instruction that multiplies bytes sums two products in 16 bits and saturates there. Here it
//! never does: the taps stand in an order in which the two of a sum belong to bases that add up to
//! at most 2/3, which is 256 steps with rounding, and 256·127 is less than 2¹⁵.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use std::arch::x86_64::{
    _mm256_add_epi32, _mm256_add_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_mul_ps, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_setzero_ps, _mm256_setzero_si256, _mm256_storeu_ps, _mm256_storeu_si256,
};
use std::ops::Range;

use super::GROUP;
use super::avx2::Avx2;
use super::quantized::{QuantizedJob, Seen, Tile};
use crate::kernels::quantized::{BLOCK, QuantizedPath};

/// Numbers of a vector.
const LANES: usize = 8;

/// [`QuantizedJob::prepare`] with this path's vectors.
///
/// # Panics
/// If the processor lacks the path.
pub(super) fn prepare(job: &QuantizedJob<'_>, inputs: Range<usize>, seen: Seen<'_>) {
    #[target_feature(enable = "avx2,fma")]
    fn prepare(simd: Avx2, job: &QuantizedJob<'_>, inputs: Range<usize>, seen: Seen<'_>) {
        job.prepare(simd, inputs, seen);
    }
    let simd = Avx2::detect().expect("AVX2");
    // SAFETY: the CPU has what the function needs, of which the value is the proof.
    unsafe { prepare(simd, job, inputs, seen) }
}

/// Adds a tile's share to its sums, `[rows][width]`.
///
/// # Panics
/// If the processor lacks the path, or a tile has neither four blocks nor one.
pub(super) fn add(tile: &Tile<'_>, integers: &mut [i32], floats: &mut [f32]) {
    assert!(QuantizedPath::Avx2.is_available(), "AVX2");
    let lines = integers.chunks_exact_mut(tile.width).zip(floats.chunks_exact_mut(tile.width));
    for (row, (integers, floats)) in lines.enumerate() {
        match tile.width / BLOCK {
            4 => {
                for column in [0, 4 * LANES] {
                    let own = column..column + 4 * LANES;
                    let (integers, floats) = (&mut integers[own.clone()], &mut floats[own]);
                    // SAFETY: the CPU has what the function needs, as was just asked.
                    unsafe { vectors::<4>(tile, row, column, integers, floats) };
                }
            }
            // SAFETY: as above.
            1 => unsafe { vectors::<2>(tile, row, 0, integers, floats) },
            blocks => unreachable!("a tile of {blocks} blocks"),
        }
    }
}

/// `N` vectors of a row's outputs, from a column of the tile on.
#[target_feature(enable = "avx2")]
fn vectors<const N: usize>(
    tile: &Tile<'_>,
    row: usize,
    column: usize,
    integers: &mut [i32],
    floats: &mut [f32],
) {
    assert!(integers.len() == N * LANES && floats.len() == N * LANES, "sums of {N} vectors");
    let mut whole = [_mm256_setzero_si256(); N];
    let mut real = [_mm256_setzero_ps(); N];
    for vector in 0..N {
        let integers = &integers[vector * LANES..][..LANES];
        // SAFETY: the slice is a vector's.
        whole[vector] = unsafe { _mm256_loadu_si256(integers.as_ptr().cast()) };
        let floats = &floats[vector * LANES..][..LANES];
        // SAFETY: as above.
        real[vector] = unsafe { _mm256_loadu_ps(floats.as_ptr()) };
    }
    assert!(column + N * LANES <= tile.width, "columns of a tile");
    let blocks = tile.width / BLOCK;
    let place = Tile::place(row, 0);
    let of_input = tile.intervals * blocks;
    let seen = place..place + (tile.count - 1) * GROUP + 1;
    let mut quads = tile.quads[seen.clone()].as_ptr();
    let mut windows = tile.windows[seen.clone()].as_ptr();
    let mut activations = tile.activations[seen].as_ptr();
    let first = column / BLOCK;
    let mut splines = tile.splines[..tile.count * of_input].as_ptr().wrapping_add(first);
    let has_base = !tile.base.is_empty();
    let base = tile.base[..if has_base { tile.count * blocks } else { 0 }].as_ptr();
    let mut base = base.wrapping_add(first);
    let ones = _mm256_set1_epi16(1);
    for _ in 0..tile.count {
        // SAFETY: a row has a window in every input.
        let window = unsafe { windows.read() } as usize;
        // SAFETY: and a quadruple of basis values.
        let quad = unsafe { quads.read() };
        let quad = _mm256_set1_epi32(quad.cast_signed());
        let lanes = splines.wrapping_add(window * blocks).cast::<i8>();
        for (vector, sum) in whole.iter_mut().enumerate() {
            let place = lanes.wrapping_add(vector * LANES * 4);
            // SAFETY: a window is that of an interval, which has coefficients for all columns.
            let weights = unsafe { _mm256_loadu_si256(place.cast()) };
            let pairs = _mm256_maddubs_epi16(quad, weights);
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
        }
        if has_base {
            // SAFETY: a row has a value in every input.
            let activation = unsafe { activations.read() };
            let activation = _mm256_set1_ps(activation);
            for (vector, sum) in real.iter_mut().enumerate() {
                // SAFETY: an input has base weights for all columns.
                let weights =
                    unsafe { _mm256_loadu_ps(base.cast::<f32>().wrapping_add(vector * LANES)) };
                // Rounded twice, as on the portable path.
                *sum = _mm256_add_ps(*sum, _mm256_mul_ps(activation, weights));
            }
        }
        quads = quads.wrapping_add(GROUP);
        windows = windows.wrapping_add(GROUP);
        activations = activations.wrapping_add(GROUP);
        splines = splines.wrapping_add(of_input);
        base = base.wrapping_add(blocks);
    }
    for vector in 0..N {
        let integers = &mut integers[vector * LANES..][..LANES];
        // SAFETY: the slice is a vector's.
        unsafe { _mm256_storeu_si256(integers.as_mut_ptr().cast(), whole[vector]) };
        let floats = &mut floats[vector * LANES..][..LANES];
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(floats.as_mut_ptr(), real[vector]) };
    }
}
