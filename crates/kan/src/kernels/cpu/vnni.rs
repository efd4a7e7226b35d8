//! Integer dot products of sixteen lanes: AVX-512 VNNI.
#![expect(unsafe_code, reason = "reads and writes through checked pointers")]

use std::arch::x86_64::{
    _mm512_add_ps, _mm512_dpbusd_epi32, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_storeu_ps,
    _mm512_storeu_si512,
};

use super::INPUTS;
use super::quantized::Tile;
use crate::kernels::quantized::{BLOCK, QuantizedPath};

/// Adds a tile's share to its sums, `[rows][width]`.
///
/// # Panics
/// If the processor lacks the path, or a tile has neither four blocks nor one.
pub(super) fn add(tile: &Tile<'_>, integers: &mut [i32], floats: &mut [f32]) {
    assert!(QuantizedPath::Avx512Vnni.is_available(), "AVX-512 VNNI");
    match tile.width / BLOCK {
        // SAFETY: the CPU has what the function needs, as was just asked.
        4 => unsafe { rows::<4>(tile, integers, floats) },
        // SAFETY: as above.
        1 => unsafe { rows::<1>(tile, integers, floats) },
        blocks => unreachable!("a tile of {blocks} blocks"),
    }
}

/// `N` vectors of outputs, row by row.
#[target_feature(enable = "avx512f,avx512vnni")]
fn rows<const N: usize>(tile: &Tile<'_>, integers: &mut [i32], floats: &mut [f32]) {
    let width = N * BLOCK;
    let lines = integers.chunks_exact_mut(width).zip(floats.chunks_exact_mut(width));
    for (row, (integers, floats)) in lines.enumerate() {
        let mut whole = [_mm512_setzero_si512(); N];
        let mut real = [_mm512_setzero_ps(); N];
        for vector in 0..N {
            let place = vector * BLOCK;
            // SAFETY: the line holds `N` vectors.
            whole[vector] = unsafe { _mm512_loadu_si512(integers[place..].as_ptr().cast()) };
            // SAFETY: as above.
            real[vector] = unsafe { _mm512_loadu_ps(floats[place..].as_ptr()) };
        }
        for input in 0..tile.count {
            let at = row * INPUTS + input;
            let (lanes, base) = tile.weights(input, tile.windows[at]);
            let quad = _mm512_set1_epi32(tile.quads[at].cast_signed());
            for (vector, sum) in whole.iter_mut().enumerate() {
                let place = lanes.as_ptr().wrapping_add(vector * BLOCK * 4);
                // SAFETY: a tile's coefficients are `N` vectors of sixteen quadruples.
                let weights = unsafe { _mm512_loadu_si512(place.cast()) };
                *sum = _mm512_dpbusd_epi32(*sum, quad, weights);
            }
            if base.is_empty() {
                continue;
            }
            let activation = _mm512_set1_ps(tile.activations[at]);
            for (vector, sum) in real.iter_mut().enumerate() {
                let place = base.as_ptr().wrapping_add(vector * BLOCK);
                // SAFETY: a tile's base weights are `N` vectors.
                let weights = unsafe { _mm512_loadu_ps(place) };
                // Rounded twice, as on the portable path.
                *sum = _mm512_add_ps(*sum, _mm512_mul_ps(activation, weights));
            }
        }
        for vector in 0..N {
            let place = vector * BLOCK;
            // SAFETY: the line holds `N` vectors.
            unsafe { _mm512_storeu_si512(integers[place..].as_mut_ptr().cast(), whole[vector]) };
            // SAFETY: as above.
            unsafe { _mm512_storeu_ps(floats[place..].as_mut_ptr(), real[vector]) };
        }
    }
}
