//! Tiles of bf16 multiplied by the vector instruction of AVX-512 for pairs of them.
//!
//! # Source
//! AMD64 Architecture Programmer's Manual, volume 4, `VDPBF16PS`. Zen 4 executes as many of it as of
//! `VFMADD` in f32, with twice the products each.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::arch::x86_64::{
    __cpuid, __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_set1_epi32,
    _mm512_setzero_ps, _mm512_setzero_si512, _mm512_storeu_ps,
};

use super::{BF16_SQUARE, Square, TILE_LANES, TILE_TERMS, Tile, TilesAt};

/// Rows of a block: with two vectors each, their sums stay in registers.
const ROWS: usize = 8;

/// Terms of a tile in memory.
const OF_TILE: usize = TILE_LANES * TILE_TERMS;

/// Proof that the CPU has the instruction, and that it is as fast as products in f32.
#[derive(Debug, Clone, Copy)]
pub struct Avx512Bf16(());

impl Avx512Bf16 {
    /// The proof, if this is a processor of AMD with the instruction: on Intel's Sapphire Rapids it takes
    /// more than three times as long as a product in f32.
    pub(super) fn detect() -> Option<Self> {
        let has_all = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16");
        (has_all && is_of_amd()).then_some(Self(()))
    }

    /// `c = a·b` of two tiles' rows and two tiles' columns.
    ///
    /// # Panics
    /// If factors have different numbers of tiles.
    pub(super) fn multiply(self, c: &mut Square, a: [&[Tile]; 2], b: [&[Tile]; 2]) {
        let steps = a[0].len();
        let lens = [a[1].len(), b[0].len(), b[1].len()];
        assert_eq!(lens, [steps; 3], "tiles of a product");
        let starts = |tiles: [&[Tile]; 2]| tiles.map(|tiles| tiles.as_ptr().cast::<u16>());
        let job = Job { steps, a: starts(a), b: starts(b), pitch: [TILE_TERMS; 2] };
        let step = |step: usize| step * OF_TILE;
        // SAFETY: a value of the type proves that the CPU has the instructions, and every factor has as
        // many tiles as there are steps.
        unsafe { squares(c, job, step, step) };
    }

    /// The same of tiles anywhere in buffers.
    ///
    /// # Panics
    /// If factors have different numbers of steps, or a tile is not in its buffer.
    pub(super) fn multiply_at(self, c: &mut Square, a: TilesAt<'_>, b: TilesAt<'_>) {
        let [of_a, of_b] = [a, b].map(|tiles| tiles.steps.offsets());
        assert_eq!(of_a.len(), of_b.len(), "steps of a product");
        a.check();
        b.check();
        let starts = |tiles: TilesAt<'_>| {
            let first = tiles.pairs.as_ptr().cast::<u16>();
            tiles.first.map(|at| first.wrapping_add(at))
        };
        let job = Job { steps: of_a.len(), a: starts(a), b: starts(b), pitch: [a.pitch, b.pitch] };
        // SAFETY: a value of the type proves that the CPU has the instructions, and the tiles of every
        // step lie in their buffers, as was checked.
        unsafe { squares(c, job, |step| of_a[step] as usize, |step| of_b[step] as usize) };
    }
}

/// Whether a processor is one of AMD's.
fn is_of_amd() -> bool {
    let vendor = __cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
}

/// The pairs of terms of 32-bit numbers.
#[target_feature(enable = "avx512f")]
#[inline]
fn as_pairs(numbers: __m512i) -> __m512bh {
    // SAFETY: both are vectors of 512 bits without further meaning.
    unsafe { std::mem::transmute(numbers) }
}

/// Two tiles of rows and two of columns in each step.
#[derive(Clone, Copy)]
struct Job {
    steps: usize,
    a: [*const u16; 2],
    b: [*const u16; 2],
    /// Terms from row to row of a tile, of both factors.
    pitch: [usize; 2],
}

/// Computes a square, whose tiles of a step are so many terms from those of the job.
///
/// # Safety
/// The CPU has the instructions, and all rows of all tiles may be read.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn squares(
    c: &mut Square,
    job: Job,
    of_a: impl Fn(usize) -> usize,
    of_b: impl Fn(usize) -> usize,
) {
    for first in (0..BF16_SQUARE).step_by(ROWS) {
        let a = job.a[first / TILE_LANES].wrapping_add(first % TILE_LANES * job.pitch[0]);
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        for step in 0..job.steps {
            let a = a.wrapping_add(of_a(step));
            let b = [0, 1].map(|tile| job.b[tile].wrapping_add(of_b(step)));
            for pair in 0..TILE_LANES {
                let mut columns = [_mm512_setzero_si512(); 2];
                for (columns, b) in columns.iter_mut().zip(b) {
                    let place = b.wrapping_add(pair * job.pitch[1]).cast::<__m512i>();
                    // SAFETY: the caller promises the row.
                    *columns = unsafe { _mm512_loadu_si512(place) };
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let place = a.wrapping_add(row * job.pitch[0] + 2 * pair).cast::<i32>();
                    // SAFETY: the caller promises the row.
                    let terms = as_pairs(_mm512_set1_epi32(unsafe { place.read_unaligned() }));
                    for (sum, &columns) in sums.iter_mut().zip(&columns) {
                        *sum = _mm512_dpbf16_ps(*sum, terms, as_pairs(columns));
                    }
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let to = c.0[first + row].as_mut_ptr();
            for (half, &sum) in sums.iter().enumerate() {
                // SAFETY: a row of the square has two vectors.
                unsafe { _mm512_storeu_ps(to.wrapping_add(half * TILE_LANES), sum) };
            }
        }
    }
}
