//! Adding a tile's sums to the outputs.

use std::ops::Range;

use updraft_simd::Simd;

/// Numbers of a cache line.
const CACHE_LINE: usize = 16;

/// The destination of a tile's sums: the first block of inputs writes the outputs, with the bias if
/// there is one, and every other adds to them.
pub(super) struct Flush<'a> {
    pub(super) bias: Option<&'a [f32]>,
    pub(super) is_first: bool,
    pub(super) columns: Range<usize>,
    pub(super) out_features: usize,
    /// `[rows, out_features]`.
    pub(super) y: &'a mut [f32],
}

impl Flush<'_> {
    /// Prefetches the outputs of some samples, or of fewer at the end.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd>(&self, simd: S, rows: Range<usize>) {
        for row in rows {
            let start = self.y.as_ptr().wrapping_add(row * self.out_features);
            for column in self.columns.clone().step_by(CACHE_LINE) {
                simd.prefetch(start.wrapping_add(column));
            }
        }
    }

    /// Adds the sums of some samples.
    #[inline(always)]
    pub(super) fn add<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        rows: Range<usize>,
        sums: &[f32],
    ) {
        let lines = self.y.chunks_exact_mut(self.out_features).skip(rows.start).take(rows.len());
        for (y, sums) in lines.zip(sums.chunks_exact(N * S::LANES)) {
            let y = &mut y[self.columns.clone()];
            for (vector, sums) in sums.chunks_exact(S::LANES).enumerate() {
                let place = vector * S::LANES..y.len().min((vector + 1) * S::LANES);
                let before = match self.bias {
                    _ if !self.is_first => simd.read(&y[place.clone()]),
                    Some(bias) => simd.read(&bias[self.columns.clone()][place.clone()]),
                    None => simd.zero(),
                };
                simd.write(&mut y[place], simd.add(before, simd.read(sums)));
            }
        }
    }
}
