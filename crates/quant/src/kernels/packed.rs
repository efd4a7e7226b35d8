//! Weights in the order in which the kernels read them, the same for every instruction set.

use super::cpu::LANES;

/// Columns whose weights lie side by side; the last panel may be narrower, by whole vectors.
pub(crate) const PANEL: usize = 2 * LANES;

/// Four weights of sixteen columns: one aligned vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [i8; 4 * LANES]);

/// Bytes of a window that lie side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Where they start, from the window's start.
    pub(crate) at: u32,
    /// Groups of four; the last may reach over the run, where its weights are zero.
    pub(crate) quads: u32,
}

/// A matrix of weights `[columns][depth]`, packed for windows of `segments` runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) lines: Vec<Line>,
    pub(crate) columns: usize,
}

impl Packed {
    /// Packs `weights`, `[columns][segments][segment]`.
    pub(crate) fn new(weights: &[i8], columns: usize, segments: usize, segment: usize) -> Self {
        assert_eq!(weights.len(), columns * segments * segment, "numbers of the weights");
        let vectors = columns.div_ceil(LANES);
        let quads = segment.div_ceil(4);
        let of_panel = PANEL / LANES;
        let mut lines = vec![Line([0; 4 * LANES]); vectors * segments * quads];
        for vector in 0..vectors {
            let panel = vector / of_panel;
            let width = (vectors - panel * of_panel).min(of_panel);
            let first = panel * of_panel * segments * quads + vector % of_panel;
            for quad in 0..segments * quads {
                let line = &mut lines[first + quad * width].0;
                let (run, inside) = (quad / quads, 4 * (quad % quads));
                let taken = (segment - inside).min(4);
                for lane in 0..LANES.min(columns - vector * LANES) {
                    let column = vector * LANES + lane;
                    let from = (column * segments + run) * segment + inside;
                    line[4 * lane..][..taken].copy_from_slice(&weights[from..][..taken]);
                }
            }
        }
        Self { lines, columns }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.lines.as_slice())
    }
}
