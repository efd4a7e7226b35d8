//! Weights in the order in which the kernels read them, the same for every instruction set.

#[cfg(target_arch = "x86_64")]
use updraft_simd::ByteTiles;
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

/// Groups of four in a tile of bytes.
const TILE: usize = 16;

/// The bytes of a window, in runs of the same length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    runs: Vec<Run>,
    /// The offsets of every tile of 64 bytes of the runs; none if the weights are not packed for tiles.
    tiles: Vec<u32>,
    /// Groups that packed weights have for each run, and those of them that only fill tiles.
    stored: usize,
    filling: usize,
}

impl Window {
    /// Runs of `segment` bytes at these offsets from the window's start.
    pub(crate) fn new(offsets: impl Iterator<Item = u32>, segment: usize) -> Self {
        let quads = segment.div_ceil(4);
        let runs: Vec<Run> = offsets.map(|at| Run { at, quads: quads as u32 }).collect();
        let tiles = if is_for_tiles(quads) { quads.div_ceil(TILE) } else { 0 };
        let of_run = |run: &Run| {
            let at = run.at;
            (0..tiles).map(move |tile| at + (4 * TILE * tile) as u32)
        };
        let tiles = runs.iter().flat_map(of_run).collect();
        let stored = stored(quads);
        Self { runs, tiles, stored, filling: stored - quads }
    }

    /// Its runs.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The offsets of its tiles; none if the weights are not packed for tiles.
    pub(crate) fn tiles(&self) -> &[u32] {
        &self.tiles
    }

    /// Bytes from its start to its end, and to the end of its last tile.
    pub(crate) fn ends(&self) -> [usize; 2] {
        let of_run = |run: &Run| run.at as usize + 4 * run.quads as usize;
        let of_tile = |&at: &u32| at as usize + 4 * TILE;
        let end = self.runs.iter().map(of_run).max().unwrap_or(0);
        [end, self.tiles.iter().map(of_tile).max().unwrap_or(0)]
    }

    /// Groups of four weights of a column, with those that fill tiles.
    pub(crate) const fn quads(&self) -> usize {
        self.runs.len() * self.stored
    }

    /// Groups after each run that only fill tiles.
    pub(crate) const fn filling(&self) -> usize {
        self.filling
    }
}

/// Whether runs of so many groups are packed for tiles: the processor multiplies tiles, and a third of
/// them is filled.
fn is_for_tiles(quads: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        ByteTiles::detect().is_some() && quads.next_multiple_of(TILE) <= 3 * quads
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = quads;
        false
    }
}

/// The groups that a run takes in packed weights.
fn stored(quads: usize) -> usize {
    if is_for_tiles(quads) { quads.next_multiple_of(TILE) } else { quads }
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
        let count = columns.div_ceil(LANES) * segments * stored(segment.div_ceil(4));
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
        let stored = stored(quads);
        let of_panel = PANEL / LANES;
        (0..vectors).flat_map(move |vector| {
            let panel = vector / of_panel;
            let width = (vectors - panel * of_panel).min(of_panel);
            let first = panel * of_panel * segments * stored + vector % of_panel;
            (0..segments * quads).flat_map(move |quad| {
                let (run, inside) = (quad / quads, 4 * (quad % quads));
                let at = run * stored + quad % quads;
                (0..LANES.min(columns - vector * LANES)).map(move |lane| {
                    let column = vector * LANES + lane;
                    let from = (column * segments + run) * segment + inside;
                    let taken = (segment - inside).min(4);
                    Quad { line: first + at * width, lane, from, taken }
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
