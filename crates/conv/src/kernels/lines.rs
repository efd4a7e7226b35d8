//! Where lanes are pixels: grids whose rows fill vectors better than channels do.

use updraft_simd::Isa;

use super::cpu::LineJob;

/// A grid of pixels whose rows fill vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_step: usize,
}

impl Lines {
    /// The grid, if windows of neighbours lie side by side and rows fill vectors better than
    /// channels do.
    pub(crate) fn of(
        isa: Isa,
        size: [usize; 2],
        [row_step, column_step]: [usize; 2],
        channels: usize,
    ) -> Option<Self> {
        let [rows, columns] = if row_step == size[1] { [1, size[0] * size[1]] } else { size };
        let filled = |count: usize| count as f64 / count.next_multiple_of(isa.lanes()) as f64;
        // With lanes full, sums over pixels take three quarters of the time of sums over channels.
        let is_better = filled(columns) >= 0.75 * filled(channels);
        let fits = column_step == 1 && LineJob::fits(isa, columns);
        (fits && is_better).then_some(Self { rows, columns, row_step })
    }

    pub(crate) fn job<'a>(
        self,
        image: &'a [f32],
        taps: &'a [u32],
        weights: &'a [f32],
        start: &'a [f32],
        channels: usize,
    ) -> LineJob<'a> {
        let Self { rows, columns, row_step } = self;
        LineJob { image, taps, weights, start, channels, rows, columns, row_step }
    }
}

/// Whether a vector of so many channels would be mostly empty.
pub(crate) const fn are_few(channels: usize, lanes: usize) -> bool {
    channels * 4 <= lanes
}

/// The path, or that of shorter vectors if only these are filled by rows of few channels.
pub(crate) fn for_rows(isa: Isa, columns: usize, stride: [usize; 2], channels: usize) -> Isa {
    let shorter = Isa::Avx2;
    let fits = LineJob::fits(shorter, columns) && !LineJob::fits(isa, columns);
    let helps = fits && stride == [1, 1] && are_few(channels, isa.lanes());
    if isa.base() == Isa::Avx512 && helps && shorter.is_available() { shorter } else { isa }
}
