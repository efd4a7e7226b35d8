//! Integer dot products of sixteen lanes: AVX-512 VNNI.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use std::arch::x86_64::{
    _mm512_add_ps, _mm512_dpbusd_epi32, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_storeu_ps,
    _mm512_storeu_si512,
};

use std::ops::Range;

use super::GROUP;
use super::avx512::Avx512;
use super::quantized::{QuantizedJob, Seen, Tile};
use crate::kernels::quantized::{BLOCK, QuantizedPath};

/// Rows that take their sums into registers at a time: two hide how long a product takes.
const ROWS: usize = 2;

/// [`QuantizedJob::prepare`] with this path's vectors.
///
/// # Panics
/// If the processor lacks the path.
pub(super) fn prepare(job: &QuantizedJob<'_>, inputs: Range<usize>, seen: Seen<'_>) {
    #[target_feature(enable = "avx512f,avx512vl")]
    fn prepare(simd: Avx512, job: &QuantizedJob<'_>, inputs: Range<usize>, seen: Seen<'_>) {
        job.prepare(simd, inputs, seen);
    }
    let simd = Avx512::detect().expect("AVX-512");
    // SAFETY: the CPU has what the function needs, of which the value is the proof.
    unsafe { prepare(simd, job, inputs, seen) }
}

/// Adds a tile's share to its sums, `[rows][width]`.
///
/// # Panics
/// If the processor lacks the path, or a tile has neither four blocks nor one.
pub(super) fn add(tile: &Tile<'_>, integers: &mut [i32], floats: &mut [f32]) {
    assert!(QuantizedPath::Avx512Vnni.is_available(), "AVX-512 VNNI");
    match tile.width / BLOCK {
        // SAFETY: the CPU has what the function needs, as was just asked.
        4 => unsafe { lines::<4>(tile, integers, floats) },
        // SAFETY: as above.
        1 => unsafe { lines::<1>(tile, integers, floats) },
        blocks => unreachable!("a tile of {blocks} blocks"),
    }
}

/// `N` vectors of outputs, for all rows.
#[target_feature(enable = "avx512f,avx512vnni")]
fn lines<const N: usize>(tile: &Tile<'_>, integers: &mut [i32], floats: &mut [f32]) {
    let width = N * BLOCK;
    let rows_at_once = integers.len() / width / ROWS * ROWS;
    let (many, one) = integers.split_at_mut(rows_at_once * width);
    let (many_floats, one_floats) = floats.split_at_mut(rows_at_once * width);
    let chunks =
        many.chunks_exact_mut(ROWS * width).zip(many_floats.chunks_exact_mut(ROWS * width));
    for (index, (integers, floats)) in chunks.enumerate() {
        rows::<N, ROWS>(tile, index * ROWS, integers, floats);
    }
    let lines = one.chunks_exact_mut(width).zip(one_floats.chunks_exact_mut(width));
    for (index, (integers, floats)) in lines.enumerate() {
        rows::<N, 1>(tile, rows_at_once + index, integers, floats);
    }
}

/// `N` vectors of outputs of `R` rows, from one on.
#[target_feature(enable = "avx512f,avx512vnni")]
fn rows<const N: usize, const R: usize>(
    tile: &Tile<'_>,
    first: usize,
    integers: &mut [i32],
    floats: &mut [f32],
) {
    let width = N * BLOCK;
    let mut whole = [[_mm512_setzero_si512(); N]; R];
    let mut real = [[_mm512_setzero_ps(); N]; R];
    for row in 0..R {
        for vector in 0..N {
            let place = row * width + vector * BLOCK;
            let (integers, floats) = (&integers[place..][..BLOCK], &floats[place..][..BLOCK]);
            // SAFETY: the slice is a vector's.
            whole[row][vector] = unsafe { _mm512_loadu_si512(integers.as_ptr().cast()) };
            // SAFETY: as above.
            real[row][vector] = unsafe { _mm512_loadu_ps(floats.as_ptr()) };
        }
    }
    let place = Tile::place(first, 0);
    let of_input = tile.intervals * N;
    let seen = place..place + (tile.count - 1) * GROUP + R;
    let mut quads = tile.quads[seen.clone()].as_ptr();
    let mut windows = tile.windows[seen.clone()].as_ptr();
    let mut activations = tile.activations[seen].as_ptr();
    let mut splines = tile.splines[..tile.count * of_input].as_ptr();
    let has_base = !tile.base.is_empty();
    let mut base = tile.base[..if has_base { tile.count * N } else { 0 }].as_ptr();
    for _ in 0..tile.count {
        for (row, sums) in whole.iter_mut().enumerate() {
            // SAFETY: every row has a window in every input.
            let window = unsafe { windows.wrapping_add(row).read() } as usize;
            // SAFETY: and a quadruple of basis values.
            let quad = unsafe { quads.wrapping_add(row).read() };
            let quad = _mm512_set1_epi32(quad.cast_signed());
            let lanes = splines.wrapping_add(window * N);
            for (vector, sum) in sums.iter_mut().enumerate() {
                let place = lanes.wrapping_add(vector);
                // SAFETY: a window is that of an interval, whose coefficients are `N` vectors.
                let weights = unsafe { _mm512_loadu_si512(place.cast()) };
                *sum = _mm512_dpbusd_epi32(*sum, quad, weights);
            }
        }
        if has_base {
            let mut weights = [_mm512_setzero_ps(); N];
            for (vector, weights) in weights.iter_mut().enumerate() {
                // SAFETY: an input's base weights are `N` vectors.
                *weights = unsafe { _mm512_loadu_ps(base.wrapping_add(vector).cast()) };
            }
            for (row, sums) in real.iter_mut().enumerate() {
                // SAFETY: every row has a value in every input.
                let activation = unsafe { activations.wrapping_add(row).read() };
                let activation = _mm512_set1_ps(activation);
                for (sum, &weights) in sums.iter_mut().zip(&weights) {
                    // Rounded twice, as on the portable path.
                    *sum = _mm512_add_ps(*sum, _mm512_mul_ps(activation, weights));
                }
            }
        }
        quads = quads.wrapping_add(GROUP);
        windows = windows.wrapping_add(GROUP);
        activations = activations.wrapping_add(GROUP);
        splines = splines.wrapping_add(of_input);
        base = base.wrapping_add(N);
    }
    for row in 0..R {
        for vector in 0..N {
            let place = row * width + vector * BLOCK;
            let integers = &mut integers[place..][..BLOCK];
            // SAFETY: the slice is a vector's.
            unsafe { _mm512_storeu_si512(integers.as_mut_ptr().cast(), whole[row][vector]) };
            let floats = &mut floats[place..][..BLOCK];
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(floats.as_mut_ptr(), real[row][vector]) };
        }
    }
}
