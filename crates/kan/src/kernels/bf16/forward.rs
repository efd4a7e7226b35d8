//! The outputs of a layer.

use updraft_simd::{
    BF16_SQUARE, Bf16Factor, Cut, Kernel, Simd, TILE_LANES, TILE_TERMS, Tile, grown, over,
    pack_left, threads,
};

use super::coefficients::{add_square, coefficients, gather, pack_panels};
use super::plan::{Chunk, Plan, ROWS};
use super::scratch::{Bf16Scratch, OfThread};
use crate::kernels::cpu::PixelSplines;
use crate::kernels::geometry::Weights;
use crate::kernels::pixel_functions::PixelFunctions;

/// Computes a layer's outputs `y`, `[rows][outputs]`, of `x`, `[rows][inputs]`.
///
/// Every output is the sum of its terms in the order of chunks and of the unit, whatever the number of
/// threads.
pub(crate) fn forward(
    plan: &Plan,
    weights: &Weights<'_>,
    x: &[f32],
    y: &mut [f32],
    scratch: &mut Bf16Scratch,
    asked_threads: usize,
) {
    let (outputs, panels, columns) = (plan.outputs, plan.panels(), plan.columns());
    let steps_of = |chunk: Chunk| plan.depth(chunk) / TILE_TERMS;
    let steps: usize = plan.chunks().map(steps_of).sum();
    let (right, spaces) = scratch.split(steps * panels, threads(asked_threads));
    let mut rest = &mut *right;
    let mut all = Vec::new();
    for chunk in plan.chunks() {
        let own = rest.split_off_mut(..steps_of(chunk) * panels);
        all.push((chunk, own.expect("as many tiles as all chunks have")));
    }
    let of = &coefficients(plan, weights);
    over(all, spaces, |_, (chunk, to), space| {
        let depth = plan.depth(chunk);
        let numbers = space.values.grown(depth * outputs);
        gather(plan, of, chunk, numbers);
        let factor = Bf16Factor { numbers, pitch: outputs, rows_are_lanes: false };
        pack_panels(plan, factor, [outputs, depth], to);
    });

    let right = &*right;
    over(Cut::new(y, ROWS * outputs), spaces, |piece, y, space| {
        let x = &x[piece * ROWS * plan.inputs..][..y.len() / outputs * plan.inputs];
        let rows = y.len() / outputs;
        let OfThread { columns: inputs, values, sums, left, square } = space;
        let sums = sums.grown(rows.next_multiple_of(BF16_SQUARE) * columns);
        sums.fill(0.0);
        let mut place = 0;
        for chunk in plan.chunks() {
            let (depth, steps) = (plan.depth(chunk), steps_of(chunk));
            let right = &right[place..][..steps * panels];
            place += steps * panels;
            let inputs = inputs.grown(rows * chunk.filled);
            copy_inputs(plan, chunk, x, inputs);
            let values = values.grown(rows * depth);
            plan.isa.vectors().run(Values { splines: plan.splines, inputs, values });
            let tiles = grown(left, rows.next_multiple_of(BF16_SQUARE) / TILE_LANES * steps);
            let factor = Bf16Factor { numbers: values, pitch: depth, rows_are_lanes: true };
            pack_rows(plan, factor, [rows, depth], tiles);
            plan.unit.run(|multiply| {
                for (panel, b) in right.chunks_exact(2 * steps).enumerate() {
                    let b = b.split_at(steps);
                    let strips = sums.chunks_exact_mut(BF16_SQUARE * columns);
                    for (sums, a) in strips.zip(tiles.chunks_exact(2 * steps)) {
                        let a = a.split_at(steps);
                        multiply(square, [a.0, a.1], [b.0, b.1]);
                        add_square(square, sums, columns, panel * BF16_SQUARE);
                    }
                }
            });
        }
        for (y, sums) in y.chunks_exact_mut(outputs).zip(sums.chunks_exact(columns)) {
            match weights.bias {
                None => y.copy_from_slice(&sums[..outputs]),
                Some(bias) => {
                    for ((y, sum), bias) in y.iter_mut().zip(sums).zip(bias) {
                        *y = sum + bias;
                    }
                }
            }
        }
    });
}

/// Copies the inputs of a chunk, `[rows][filled]`, with zeros after the last one.
pub(super) fn copy_inputs(plan: &Plan, chunk: Chunk, x: &[f32], to: &mut [f32]) {
    for (x, to) in x.chunks_exact(plan.inputs).zip(to.chunks_exact_mut(chunk.filled)) {
        let (own, behind) = to.split_at_mut(chunk.count);
        own.copy_from_slice(&x[chunk.first..][..chunk.count]);
        behind.fill(0.0);
    }
}

/// Packs lanes of a left factor, `[tiles of lanes][steps]`, with zeros after the last one.
pub(super) fn pack_rows(
    plan: &Plan,
    factor: Bf16Factor<'_>,
    [lanes, terms]: [usize; 2],
    to: &mut [Tile],
) {
    for (tile, to) in to.chunks_exact_mut(terms.div_ceil(TILE_TERMS)).enumerate() {
        match TILE_LANES.min(lanes.saturating_sub(tile * TILE_LANES)) {
            0 => to.fill(Tile::default()),
            count => {
                let first = [tile * TILE_LANES, 0];
                pack_left(plan.isa.vectors(), factor, first, [count, terms], to);
            }
        }
    }
}

/// Evaluates the functions of inputs.
pub(super) struct Values<'a> {
    pub(super) splines: PixelSplines,
    pub(super) inputs: &'a [f32],
    pub(super) values: &'a mut [f32],
}

impl Kernel for Values<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { splines, inputs, values } = self;
        splines.values(simd, 0, inputs, values);
    }
}
