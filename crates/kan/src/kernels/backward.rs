//! The backward pass of a layer for a batch.

use std::ops::Range;

use updraft_simd::{Isa, over};

use super::bf16;
use super::coefficients::CoefficientGradients;
use super::cpu::{GradientJob, INPUTS, finish_row, layer_tile, line, pack, rows_of_weights};
use super::geometry::{Gradients, LayerError, LayerGeometry, Weights, length};
use super::scratch::Scratch;

/// Number of tasks into which the batch of a layer with few inputs is divided, so that all threads
/// have work.
const TASKS: usize = 8;

/// Computes the gradients of `Σ y·dy`, for `x`, `[batch, in_features]`, and `dy`,
/// `[batch, out_features]`.
///
/// `gradients` is overwritten. On one instruction set, the result is bitwise equal for any number
/// of threads; 0 means 1. Without the feature `rayon` there is one thread.
///
/// NaN in `x` propagates to all gradients of its feature's parameters, and so does infinity if the
/// splines are extended by their polynomials. NaN and infinity in `dy` propagate to the gradients
/// of the sample's input, of the coefficients that the sample uses, and of the other parameters of
/// the output.
///
/// # Errors
/// [`LayerError`] if a slice does not fit the geometry, a gradient is requested for a parameter
/// that the layer does not have, or the CPU lacks the instructions; nothing is written then.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
pub fn backward(
    isa: Isa,
    geometry: &LayerGeometry,
    weights: Weights<'_>,
    x: &[f32],
    dy: &[f32],
    gradients: Gradients<'_>,
    scratch: &mut Scratch,
    threads: usize,
) -> Result<(), LayerError> {
    let (in_features, out_features) = (geometry.in_features(), geometry.out_features());
    let batch = geometry.check(&weights, x)?;
    length("dy", batch.saturating_mul(out_features), dy)?;
    geometry.check_gradients(&weights, batch, &gradients)?;
    if !isa.is_available() {
        return Err(LayerError::Isa { isa });
    }
    let Gradients { x: dx, spline, base, scaler, bias } = gradients;
    if let Some(bias) = bias {
        sum_rows(dy, bias);
    }
    let outputs = Outputs { spline, base, scaler };
    let is_summed = outputs.is_wanted();

    if let Some(plan) = bf16::Plan::of(isa, geometry, &weights, batch) {
        let Outputs { spline, base, scaler } = outputs;
        let wanted = CoefficientGradients { functions: spline, base, factors: scaler };
        bf16::backward(&plan, &weights, x, dy, dx, wanted, scratch.of_bf16(), threads);
        return Ok(());
    }
    let plan = Plan::new(isa, geometry, &weights, batch);
    let of_dy = batch * plan.width();
    let of_dx = dx.as_ref().map_or(0, |dx| dx.len());
    let of_sums =
        if is_summed && plan.pieces > 1 { plan.pieces * plan.sums(0..in_features) } else { 0 };
    let (shared, spaces) = scratch.split(of_dy + of_dx + of_sums, updraft_simd::threads(threads));
    let (packed, shared) = shared.split_at_mut(of_dy);
    let (inner, sums) = shared.split_at_mut(of_dx);

    let line = line(isa);
    let samples = dy.chunks(line * out_features).zip(packed.chunks_mut(line * plan.width()));
    over(samples.collect::<Vec<_>>(), spaces, |_, (dy, to), _| {
        pack(isa, dy, out_features, to);
    });
    let packed = &*packed;

    let edges = INPUTS * out_features;
    let mut blocks = outputs.blocks(edges, geometry.grid().bases(), in_features.div_ceil(INPUTS));
    let mut tasks = Vec::new();
    let (mut inner_left, mut sums_left) = (&mut *inner, &mut *sums);
    let mut direct =
        if plan.pieces == 1 { std::mem::take(&mut blocks) } else { Vec::new() }.into_iter();
    for rows in plan.rows() {
        for inputs in plan.inputs() {
            tasks.push(Task {
                dx: dx.as_ref().map(|_| take(&mut inner_left, rows.len() * inputs.len())),
                sums: (of_sums > 0).then(|| take(&mut sums_left, plan.sums(inputs.clone()))),
                outputs: direct.next().filter(Outputs::is_wanted),
                job: GradientJob {
                    geometry,
                    weights,
                    x: &x[rows.start * in_features..rows.end * in_features],
                    dy: &packed[rows.start * plan.width()..rows.end * plan.width()],
                    inputs,
                },
            });
        }
    }
    over(tasks, spaces, |_, task, space| {
        let Task { job, dx, sums, outputs } = task;
        match outputs {
            Some(outputs) => {
                // The sums are moved out for the call, which borrows the rest of the scratch.
                let mut of_space = std::mem::take(&mut space.sums);
                let sums = of_space.grown(plan.sums(job.inputs.clone()));
                job.run(isa, Some(&mut *sums), dx, space);
                outputs.finish(&plan.layout, geometry, &weights, job.inputs, &[sums]);
                space.sums = of_space;
            }
            None => job.run(isa, sums, dx, space),
        }
    });

    if of_sums > 0 {
        let pieces: Vec<&[f32]> = sums.chunks_exact(plan.sums(0..in_features)).collect();
        let tasks: Vec<_> = plan.inputs().zip(blocks).collect();
        over(tasks, spaces, |_, (inputs, outputs): (Range<usize>, Outputs<'_>), _| {
            let before = plan.sums(0..inputs.start);
            let place = before..before + plan.sums(inputs.clone());
            let parts: Vec<&[f32]> = pieces.iter().map(|piece| &piece[place.clone()]).collect();
            outputs.finish(&plan.layout, geometry, &weights, inputs, &parts);
        });
    }
    if let Some(dx) = dx {
        let tasks: Vec<_> = plan.rows().zip(dx.chunks_mut(plan.samples * in_features)).collect();
        let inner = &*inner;
        over(tasks, spaces, |_, (rows, dx): (Range<usize>, &mut [f32]), _| {
            plan.merge(&inner[rows.start * in_features..rows.end * in_features], dx);
        });
    }
    Ok(())
}

/// The gradients of a block of inputs over a piece of the batch.
struct Task<'a> {
    job: GradientJob<'a>,
    /// `[rows, inputs]`.
    dx: Option<&'a mut [f32]>,
    /// The destination of the sums if other pieces are added to them.
    sums: Option<&'a mut [f32]>,
    /// The destination of the gradients if the piece is the whole batch.
    outputs: Option<Outputs<'a>>,
}

/// The partition of a pass: it depends on the layer and the batch, not on the number of threads.
pub(super) struct Plan {
    batch: usize,
    in_features: usize,
    pub(super) pieces: usize,
    /// Samples of a piece.
    pub(super) samples: usize,
    layout: SumsLayout,
}

/// The layout of the sums for the gradients: `[tiles, inputs, rows of weights, outputs of the
/// tile]`.
pub(super) struct SumsLayout {
    pub(super) isa: Isa,
    /// Outputs, padded to whole vectors.
    pub(super) width: usize,
    /// Outputs of a tile.
    pub(super) tile: usize,
    /// Rows of weights of an input.
    pub(super) rows_of_weights: usize,
}

impl Plan {
    pub(super) fn new(
        isa: Isa,
        geometry: &LayerGeometry,
        weights: &Weights<'_>,
        batch: usize,
    ) -> Self {
        let in_features = geometry.in_features();
        let wanted = (TASKS / in_features.div_ceil(INPUTS)).max(1);
        // Whole blocks of samples, each of which is packed separately.
        let samples = batch.div_ceil(wanted).next_multiple_of(line(isa)).max(line(isa));
        Self {
            batch,
            in_features,
            pieces: batch.div_ceil(samples).max(1),
            samples,
            layout: SumsLayout {
                isa,
                width: geometry.out_features().next_multiple_of(isa.lanes()),
                tile: layer_tile(isa, geometry.out_features()),
                rows_of_weights: rows_of_weights(geometry, weights),
            },
        }
    }

    /// The samples of each piece.
    fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        let ends = |piece: usize| (piece * self.samples).min(self.batch);
        (0..self.pieces).map(move |piece| ends(piece)..ends(piece + 1))
    }

    /// The blocks of inputs.
    fn inputs(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let all = self.in_features;
        (0..all).step_by(INPUTS).map(move |first| first..(first + INPUTS).min(all))
    }

    /// The number of sums of some inputs.
    pub(super) fn sums(&self, inputs: Range<usize>) -> usize {
        inputs.len() * self.layout.rows_of_weights * self.layout.width
    }

    /// Outputs, padded to whole vectors.
    pub(super) const fn width(&self) -> usize {
        self.layout.width
    }

    /// Copies a piece's input gradients from blocks of inputs to rows.
    fn merge(&self, blocks: &[f32], dx: &mut [f32]) {
        let rows = dx.len() / self.in_features;
        for inputs in self.inputs() {
            let block = &blocks[inputs.start * rows..inputs.end * rows];
            let lines = dx.chunks_exact_mut(self.in_features);
            for (dx, values) in lines.zip(block.chunks_exact(inputs.len())) {
                dx[inputs.clone()].copy_from_slice(values);
            }
        }
    }
}

/// The destination of the parameter gradients of some inputs.
#[derive(Default)]
pub(super) struct Outputs<'a> {
    pub(super) spline: Option<&'a mut [f32]>,
    pub(super) base: Option<&'a mut [f32]>,
    pub(super) scaler: Option<&'a mut [f32]>,
}

impl<'a> Outputs<'a> {
    pub(super) fn is_wanted(&self) -> bool {
        self.spline.is_some() || self.base.is_some() || self.scaler.is_some()
    }

    /// Splits the gradients into `blocks` blocks of `edges` edges.
    pub(super) fn blocks(self, edges: usize, bases: usize, blocks: usize) -> Vec<Self> {
        let mut spline = self.spline.map(|all| all.chunks_mut(edges * bases));
        let mut base = self.base.map(|all| all.chunks_mut(edges));
        let mut scaler = self.scaler.map(|all| all.chunks_mut(edges));
        std::iter::repeat_with(|| Self {
            spline: spline.as_mut().and_then(Iterator::next),
            base: base.as_mut().and_then(Iterator::next),
            scaler: scaler.as_mut().and_then(Iterator::next),
        })
        .take(blocks)
        .collect()
    }

    /// Computes the gradients from the sums of all pieces.
    ///
    /// If `s` is the sum for the product of coefficient and factor, the gradient of the coefficient
    /// is `scaler·s`, and that of the scaler is `Σ_j spline·s`.
    pub(super) fn finish(
        self,
        layout: &SumsLayout,
        geometry: &LayerGeometry,
        weights: &Weights<'_>,
        inputs: Range<usize>,
        pieces: &[&[f32]],
    ) {
        let outputs = geometry.out_features();
        let bases = geometry.grid().bases();
        let Self { mut spline, mut base, mut scaler } = self;
        let count = inputs.len();
        let vectors = layout.isa.vectors();
        for (index, input) in inputs.enumerate() {
            let edges = index * outputs..(index + 1) * outputs;
            if let Some(scaler) = &mut scaler {
                scaler[edges.clone()].fill(0.0);
            }
            for row in 0..layout.rows_of_weights {
                let row_of_all = index * layout.rows_of_weights + row;
                let sums = Sums { layout, pieces, row: row_of_all, inputs: count };
                if row == bases {
                    if let Some(base) = &mut base {
                        sums.for_each(outputs, |at, sums| {
                            base[edges.clone()][at].copy_from_slice(sums)
                        });
                    }
                    continue;
                }
                let coefficients = |block: usize| {
                    let first = (block * bases + row) * outputs;
                    first..first + outputs
                };
                let weight = &weights.spline[coefficients(input)];
                let factors = weights.scaler.map(|scaler| &scaler[input * outputs..][..outputs]);
                sums.for_each(outputs, |at, sums| {
                    let scaler =
                        scaler.as_mut().map(|scaler| &mut scaler[edges.clone()][at.clone()]);
                    let spline =
                        spline.as_mut().map(|spline| &mut spline[coefficients(index)][at.clone()]);
                    let factors = factors.map(|factors| &factors[at.clone()]);
                    finish_row(vectors, sums, &weight[at], factors, spline, scaler);
                });
            }
        }
    }
}

/// A row of weights' sums, in pieces of the batch and tiles of outputs.
struct Sums<'a> {
    layout: &'a SumsLayout,
    pieces: &'a [&'a [f32]],
    row: usize,
    inputs: usize,
}

impl Sums<'_> {
    /// Calls `work` with the outputs of each tile and the sums of all pieces for them.
    fn for_each(&self, outputs: usize, mut work: impl FnMut(Range<usize>, &[f32])) {
        /// No tile is wider.
        const WIDTH: usize = 128;
        let SumsLayout { tile, width, rows_of_weights, .. } = *self.layout;
        let Some((first, others)) = self.pieces.split_first() else { return };
        for column in (0..outputs).step_by(tile) {
            let at = column..(column + tile).min(outputs);
            let start =
                column * self.inputs * rows_of_weights + self.row * tile.min(width - column);
            let place = start..start + at.len();
            if others.is_empty() {
                work(at, &first[place]);
                continue;
            }
            let mut sums = [0.0; WIDTH];
            let sums = &mut sums[..at.len()];
            sums.copy_from_slice(&first[place.clone()]);
            for piece in others {
                for (sum, part) in sums.iter_mut().zip(&piece[place.clone()]) {
                    *sum += part;
                }
            }
            work(at, sums);
        }
    }
}

/// Splits the first numbers off.
fn take<'a>(slice: &mut &'a mut [f32], count: usize) -> &'a mut [f32] {
    slice.split_off_mut(..count).expect("the work space was cut by the same plan")
}

/// The sum over rows, in f64.
pub(super) fn sum_rows(rows: &[f32], sums: &mut [f32]) {
    /// Columns summed side by side.
    const WIDTH: usize = 32;
    let columns = sums.len();
    for first in (0..columns).step_by(WIDTH) {
        let width = WIDTH.min(columns - first);
        let mut wide = [0.0; WIDTH];
        for row in rows.chunks_exact(columns) {
            for (wide, &value) in wide.iter_mut().zip(&row[first..first + width]) {
                *wide += f64::from(value);
            }
        }
        for (sum, wide) in sums[first..first + width].iter_mut().zip(wide) {
            *sum = wide as f32;
        }
    }
}
