//! Weights in the order in which the kernels read them, the same for every instruction set.

use updraft_simd::INT8_LANES as LANES;

/// Columns per panel; the last panel may be narrower, by whole vectors.
pub(crate) const PANEL: usize = 2 * LANES;

/// Four weights of sixteen columns: one aligned vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [i8; 4 * LANES]);

/// A run of contiguous bytes of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The offset from the window's start.
    pub(crate) at: u32,
    /// Groups of four; the last may exceed the run, where its weights are zero.
    pub(crate) quads: u32,
}

/// A matrix of weights `[columns][depth]`, packed for windows of `segments` runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) lines: Vec<Line>,
    pub(crate) columns: usize,
    /// Runs of a window, and the bytes of each.
    runs: [usize; 2],
}

impl Packed {
    /// Packs `weights`, `[columns][segments][segment]`.
    pub(crate) fn new(weights: &[i8], columns: usize, segments: usize, segment: usize) -> Self {
        assert_eq!(weights.len(), columns * segments * segment, "numbers of the weights");
        let count = columns.div_ceil(LANES) * segments * segment.div_ceil(4);
        let lines = vec![Line([0; 4 * LANES]); count];
        let mut packed = Self { lines, columns, runs: [segments, segment] };
        for Quad { line, lane, from, taken } in packed.quads() {
            let to = &mut packed.lines[line].0[4 * lane..][..taken];
            to.copy_from_slice(&weights[from..][..taken]);
        }
        packed
    }

    /// The weights before packing.
    pub(crate) fn unpacked(&self) -> Vec<i8> {
        let mut weights = vec![0; self.columns * self.runs[0] * self.runs[1]];
        for Quad { line, lane, from, taken } in self.quads() {
            let packed = &self.lines[line].0[4 * lane..][..taken];
            weights[from..][..taken].copy_from_slice(packed);
        }
        weights
    }

    /// Every group of weights that is contiguous in both orders.
    fn quads(&self) -> impl Iterator<Item = Quad> + use<> {
        let (columns, [segments, segment]) = (self.columns, self.runs);
        let vectors = columns.div_ceil(LANES);
        let quads = segment.div_ceil(4);
        let of_panel = PANEL / LANES;
        (0..vectors).flat_map(move |vector| {
            let panel = vector / of_panel;
            let width = (vectors - panel * of_panel).min(of_panel);
            let first = panel * of_panel * segments * quads + vector % of_panel;
            (0..segments * quads).flat_map(move |quad| {
                let (run, inside) = (quad / quads, 4 * (quad % quads));
                (0..LANES.min(columns - vector * LANES)).map(move |lane| {
                    let column = vector * LANES + lane;
                    let from = (column * segments + run) * segment + inside;
                    let taken = (segment - inside).min(4);
                    Quad { line: first + quad * width, lane, from, taken }
                })
            })
        })
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.lines.as_slice())
    }
}

/// At most four weights of a column, with their packed and original offsets.
struct Quad {
    line: usize,
    lane: usize,
    from: usize,
    taken: usize,
}
