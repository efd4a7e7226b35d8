//! The backward pass of a layer: samples are ordered by interval, the sums of the weight gradients
//! stay in registers from one interval to the next, and the weights are operands from the L1 cache.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use std::ops::Range;

use updraft_simd::{Aligned, Isa, Kernel, Simd, dispatch};

use super::run::Input;
use super::taps::{self, Wanted};
use super::weights::{self, rows_of_weights};
use super::{Blocking, GRADIENT_ROWS, INPUTS, layer_tile};
use crate::kernels::geometry::{LayerGeometry, Weights};
use crate::kernels::scratch::{Taps, Workspace};

/// The gradients of some inputs over some samples.
#[derive(Debug, Clone)]
pub(crate) struct GradientJob<'a> {
    pub(crate) geometry: &'a LayerGeometry,
    pub(crate) weights: Weights<'a>,
    /// `[rows, in_features]`.
    pub(crate) x: &'a [f32],
    /// The output gradients of these rows, packed by [`pack`](super::pack).
    pub(crate) dy: &'a [f32],
    /// At most [`INPUTS`].
    pub(crate) inputs: Range<usize>,
}

impl GradientJob<'_> {
    /// Computes the sums for the parameter gradients, `[tiles, inputs, rows of weights, outputs of
    /// the tile]`, and the gradients of these inputs, `[rows, inputs]`.
    ///
    /// The geometry has checked the weights.
    ///
    /// # Panics
    /// If a slice does not fit, or the CPU does not have `isa`.
    pub(crate) fn run(
        &self,
        isa: Isa,
        sums: Option<&mut [f32]>,
        dx: Option<&mut [f32]>,
        space: &mut Workspace,
    ) {
        assert!(isa.is_available(), "this CPU has no {isa}");
        let rows = self.x.len() / self.geometry.in_features();
        let width = self.geometry.out_features().next_multiple_of(isa.lanes());
        assert_eq!(self.dy.len(), rows * width, "gradients of the outputs");
        assert!(self.inputs.len() <= INPUTS, "inputs of a block");
        if let Some(sums) = &sums {
            let expected = self.inputs.len() * rows_of_weights(self.geometry, &self.weights);
            assert_eq!(sums.len(), expected * width, "sums");
        }
        if let Some(dx) = &dx {
            assert_eq!(dx.len(), rows * self.inputs.len(), "gradients of the inputs");
        }
        all_gradients(isa.vectors(), self, sums, dx, space);
    }
}

/// All gradients of a job.
#[inline(always)]
fn gradients<S: Simd>(
    simd: S,
    job: &GradientJob<'_>,
    mut sums: Option<&mut [f32]>,
    mut dx: Option<&mut [f32]>,
    space: &mut Workspace,
) {
    let in_features = job.geometry.in_features();
    let width = job.geometry.out_features().next_multiple_of(S::LANES);
    let wanted = Wanted { base: job.weights.base.is_some(), slopes: dx.is_some() };
    if let Some(sums) = &mut sums {
        sums.fill(0.0);
    }
    let Workspace { taps, packed, tile, .. } = space;
    let most_lines = GRADIENT_ROWS / S::LINE;
    if taps.len() < most_lines {
        taps.resize_with(most_lines, Taps::default);
    }
    // One vector per sample of a line, and one number per sample and input.
    let (partial, inner) =
        tile.grown(S::PITCH * (S::LANES + most_lines * INPUTS)).split_at_mut(S::PITCH * S::LANES);
    let groups =
        job.x.chunks(GRADIENT_ROWS * in_features).zip(job.dy.chunks(GRADIENT_ROWS * width));
    for (group, (x, dy)) in groups.enumerate() {
        let lines = x.chunks(S::LINE * in_features);
        let taps = &mut taps[..lines.len()];
        for (x, taps) in lines.zip(taps.iter_mut()) {
            taps::ordered(simd, job.geometry, wanted, x, job.inputs.clone(), taps);
        }
        inner.fill(0.0);
        let rows = x.len() / in_features;
        let mut block = Block { job, taps, rows, width, packed, partial };
        let tile = layer_tile(S::ISA, job.geometry.out_features());
        for column in (0..width).step_by(tile) {
            let vectors = (width - column).min(tile) / S::LANES;
            let sums = sums.as_deref_mut();
            let inner = dx.is_some().then_some(&mut *inner);
            // Compile only the tile sizes that the instruction set uses.
            if const { S::TILE == 1 } {
                block.wanted::<S, 1>(simd, column, dy, sums, inner);
            } else {
                match vectors {
                    1 => block.wanted::<S, 1>(simd, column, dy, sums, inner),
                    2 => block.wanted::<S, 2>(simd, column, dy, sums, inner),
                    3 => block.wanted::<S, 3>(simd, column, dy, sums, inner),
                    8 if const { S::LANES > 8 } => {
                        block.wanted::<S, 8>(simd, column, dy, sums, inner)
                    }
                    _ => block.wanted::<S, 4>(simd, column, dy, sums, inner),
                }
            }
        }
        if let Some(dx) = &mut dx {
            let inputs = job.inputs.len();
            let dx = &mut dx[group * GRADIENT_ROWS * inputs..][..rows * inputs];
            let lines = dx.chunks_mut(S::LINE * inputs).zip(inner.chunks_exact(INPUTS * S::PITCH));
            for (dx, inner) in lines {
                for (input, inner) in inner.chunks_exact(S::PITCH).take(inputs).enumerate() {
                    for (dx, value) in dx.chunks_exact_mut(inputs).zip(inner) {
                        dx[input] = *value;
                    }
                }
            }
        }
        if let Some(sums) = &mut sums {
            spread_nan(job, taps, tile, width, sums);
        }
    }
}

/// A NaN sample is in no interval, so it makes the gradients of all coefficients NaN.
fn spread_nan(job: &GradientJob<'_>, taps: &[Taps], tile: usize, width: usize, sums: &mut [f32]) {
    let (inputs, bases) = (job.inputs.len(), job.geometry.grid().bases());
    let rows = rows_of_weights(job.geometry, &job.weights);
    for input in (0..inputs).filter(|&input| taps.iter().any(|taps| taps.has_nan[input])) {
        for column in (0..width).step_by(tile) {
            let tile = tile.min(width - column);
            let place = (column * inputs + input * tile) * rows;
            sums[place..place + bases * tile].fill(f32::NAN);
        }
    }
}

/// Some samples of a job.
struct Block<'a> {
    job: &'a GradientJob<'a>,
    /// Of each line.
    taps: &'a [Taps],
    rows: usize,
    width: usize,
    packed: &'a mut Aligned,
    partial: &'a mut [f32],
}

impl Block<'_> {
    /// Computes the required gradients of a tile.
    #[inline(always)]
    fn wanted<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        column: usize,
        dy: &[f32],
        sums: Option<&mut [f32]>,
        inner: Option<&mut [f32]>,
    ) {
        if sums.is_some() || inner.is_some() {
            simd.vectorize(TileGradients::<N> { block: self, column, dy, sums, inner });
        }
    }

    /// `N` vectors of outputs, starting at a column.
    #[inline(always)]
    fn tile<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        column: usize,
        dy: &[f32],
        sums: Option<&mut [f32]>,
        mut inner: Option<&mut [f32]>,
    ) {
        let GradientJob { geometry, ref weights, ref inputs, .. } = *self.job;
        let tile = N * S::LANES;
        let of_input = rows_of_weights(geometry, weights) * tile;
        let of_tile = inputs.len() * of_input;
        let start = column * inputs.len() * rows_of_weights(geometry, weights);
        let mut sums = sums.map(|sums| &mut sums[start..][..of_tile]);
        let packed = self.packed.grown(of_tile);
        if inner.is_some() {
            weights::pack::<S, N>(simd, geometry, weights, inputs.clone(), column, packed);
        }
        let taps_count = geometry.taps(weights);
        let spline_taps = geometry.grid().degree() + 1;
        for (line, taps) in self.taps.iter().enumerate() {
            let rows = S::LINE.min(self.rows - line * S::LINE);
            let dy = &dy[line * S::LINE * self.width + column * rows..][..rows * tile];
            let mut first_run = 0;
            for index in 0..inputs.len() {
                let lines = index * taps_count * S::PITCH..(index + 1) * taps_count * S::PITCH;
                let weights = index * of_input..(index + 1) * of_input;
                let input = Input {
                    runs: &taps.runs[first_run..taps.run_ends[index]],
                    order: &taps.order[index * S::PITCH..][..rows],
                    dy,
                    taps: taps_count,
                    spline_taps,
                    values: &taps.values[lines.clone()],
                    slopes: taps.slopes.get(lines).unwrap_or_default(),
                    packed: &packed[weights.clone()],
                    width: of_input,
                };
                first_run = taps.run_ends[index];
                if let Some(sums) = &mut sums {
                    input.add_sums::<S, N>(simd, &mut sums[weights]);
                }
                if let Some(inner) = &mut inner {
                    input.write_inner::<S, N>(simd, self.partial);
                    let place = (line * INPUTS + index) * S::PITCH;
                    let inner = &mut inner[place..place + rows.next_multiple_of(S::LANES)];
                    add_sums(simd, self.partial, inner);
                }
            }
        }
    }
}

/// Adds to each number the sum over the lanes of its vector.
#[inline(always)]
pub(super) fn add_sums<S: Simd>(simd: S, vectors: &[f32], to: &mut [f32]) {
    let squares = vectors.chunks_exact(S::LANES * S::LANES).zip(to.chunks_exact_mut(S::LANES));
    for (vectors, to) in squares {
        // SAFETY: the chunk holds that many vectors.
        let sums = unsafe { simd.sums(vectors.as_ptr()) };
        simd.write(to, simd.add(simd.read(to), sums));
    }
}

/// [`Block::tile`] in a separate function; a single function would take minutes to compile.
struct TileGradients<'a, 'b, const N: usize> {
    block: &'a mut Block<'b>,
    column: usize,
    dy: &'a [f32],
    sums: Option<&'a mut [f32]>,
    inner: Option<&'a mut [f32]>,
}

impl<const N: usize> Kernel for TileGradients<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { block, column, dy, sums, inner } = self;
        block.tile::<S, N>(simd, column, dy, sums, inner);
    }
}

dispatch! {
    /// All gradients of a job.
    fn all_gradients(
        simd,
        job: &GradientJob<'_>,
        sums: Option<&mut [f32]>,
        dx: Option<&mut [f32]>,
        space: &mut Workspace,
    ) {
        gradients(simd, job, sums, dx, space);
    }
}
