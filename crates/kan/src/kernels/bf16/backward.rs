//! The gradients of a layer.

use updraft_simd::{
    BF16_SQUARE, Bf16Factor, Cut, Kernel, Simd, TILE_LANES, TILE_TERMS, grown, over, threads,
};

use super::coefficients::{add_square, coefficients, finish, gather, pack_panels};
use super::forward::{Values, copy_inputs, pack_rows};
use super::plan::{Chunk, Plan, ROWS};
use super::scratch::{Bf16Scratch, OfThread};
use crate::kernels::coefficients::CoefficientGradients;
use crate::kernels::cpu::PixelSplines;
use crate::kernels::geometry::Weights;
use crate::kernels::pixel_functions::PixelFunctions;

/// Computes the gradients of `Σ y·dy`; those that are wanted are overwritten.
///
/// The order of sums depends on the unit and the batch, not on the number of threads.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
pub(crate) fn backward(
    plan: &Plan,
    weights: &Weights<'_>,
    x: &[f32],
    dy: &[f32],
    dx: Option<&mut [f32]>,
    parameters: CoefficientGradients<'_>,
    scratch: &mut Bf16Scratch,
    threads: usize,
) {
    if let Some(dx) = dx {
        of_inputs(plan, weights, x, dy, dx, scratch, threads);
    }
    if parameters.is_wanted() {
        of_parameters(plan, weights, x, dy, parameters, scratch, threads);
    }
}

/// The gradients of inputs: those of the values of all functions, times their slopes.
fn of_inputs(
    plan: &Plan,
    weights: &Weights<'_>,
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    scratch: &mut Bf16Scratch,
    asked_threads: usize,
) {
    let (inputs, outputs) = (plan.inputs, plan.outputs);
    let steps = outputs.div_ceil(TILE_TERMS);
    let tiles_of = |chunk: Chunk| plan.depth(chunk) / TILE_LANES * steps;
    let tiles = plan.chunks().map(tiles_of).sum();
    let (right, spaces) = scratch.split(tiles, threads(asked_threads));
    let mut rest = &mut *right;
    let mut all = Vec::new();
    for chunk in plan.chunks() {
        let own = rest.split_off_mut(..tiles_of(chunk));
        all.push((chunk, own.expect("as many tiles as all chunks have")));
    }
    let of = &coefficients(plan, weights);
    over(all, spaces, |_, (chunk, to), space| {
        let depth = plan.depth(chunk);
        let numbers = space.values.grown(depth * outputs);
        gather(plan, of, chunk, numbers);
        let factor = Bf16Factor { numbers, pitch: outputs, rows_are_lanes: true };
        pack_panels(plan, factor, [depth, outputs], to);
    });

    let right = &*right;
    over(Cut::new(dx, ROWS * inputs), spaces, |piece, dx, space| {
        let rows = dx.len() / inputs;
        let x = &x[piece * ROWS * inputs..][..dx.len()];
        let dy = &dy[piece * ROWS * outputs..][..rows * outputs];
        let OfThread { columns, values, left, square, .. } = space;
        let strips = rows.next_multiple_of(BF16_SQUARE);
        let tiles = grown(left, strips / TILE_LANES * steps);
        let factor = Bf16Factor { numbers: dy, pitch: outputs, rows_are_lanes: true };
        pack_rows(plan, factor, [rows, outputs], tiles);
        let mut place = 0;
        for chunk in plan.chunks() {
            let depth = plan.depth(chunk);
            let right = &right[place..][..tiles_of(chunk)];
            place += tiles_of(chunk);
            let gradients = values.grown(strips * depth);
            plan.unit.run(|multiply| {
                for (panel, b) in right.chunks_exact(2 * steps).enumerate() {
                    let b = b.split_at(steps);
                    let strips = gradients.chunks_exact_mut(BF16_SQUARE * depth);
                    for (gradients, a) in strips.zip(tiles.chunks_exact(2 * steps)) {
                        let a = a.split_at(steps);
                        multiply(square, [a.0, a.1], [b.0, b.1]);
                        let rows = gradients.chunks_exact_mut(depth);
                        for (to, from) in rows.zip(&square.0) {
                            to[panel * BF16_SQUARE..][..BF16_SQUARE].copy_from_slice(from);
                        }
                    }
                }
            });
            let columns = columns.grown(rows * chunk.filled);
            copy_inputs(plan, chunk, x, columns);
            let gradients = &mut gradients[..rows * depth];
            let splines = plan.splines;
            plan.isa.vectors().run(Slopes { splines, inputs: columns, gradients });
            let lines = columns.chunks_exact(chunk.filled);
            for (dx, line) in dx.chunks_exact_mut(inputs).zip(lines) {
                dx[chunk.first..][..chunk.count].copy_from_slice(&line[..chunk.count]);
            }
        }
    });
}

/// The gradients of coefficients: products of the values of all functions with those of the outputs.
fn of_parameters(
    plan: &Plan,
    weights: &Weights<'_>,
    x: &[f32],
    dy: &[f32],
    mut parameters: CoefficientGradients<'_>,
    scratch: &mut Bf16Scratch,
    asked_threads: usize,
) {
    let (inputs, outputs, panels, columns) =
        (plan.inputs, plan.outputs, plan.panels(), plan.columns());
    let steps = ROWS / TILE_TERMS;
    let blocks = plan.rows.div_ceil(ROWS);
    let (right, spaces) = scratch.split(blocks * panels * steps, threads(asked_threads));
    over(Cut::new(&mut *right, panels * steps), spaces, |block, to, _| {
        let rows = ROWS.min(plan.rows - block * ROWS);
        let numbers = &dy[block * ROWS * outputs..][..rows * outputs];
        let factor = Bf16Factor { numbers, pitch: outputs, rows_are_lanes: false };
        let own = rows.div_ceil(TILE_TERMS) * panels;
        pack_panels(plan, factor, [outputs, rows], &mut to[..own]);
    });

    let right = &*right;
    let of = &coefficients(plan, weights);
    let mut tasks = Vec::new();
    for chunk in plan.chunks() {
        tasks.push((chunk, parameters.take(chunk.count, of)));
    }
    over(tasks, spaces, |_, (chunk, parameters), space| {
        let depth = plan.depth(chunk);
        let OfThread { columns: own, values, sums, left, square } = space;
        let sums = sums.grown(depth * columns);
        sums.fill(0.0);
        for block in 0..blocks {
            let rows = ROWS.min(plan.rows - block * ROWS);
            let steps_of = rows.div_ceil(TILE_TERMS);
            let right = &right[block * panels * steps..][..panels * steps_of];
            let own = own.grown(rows * chunk.filled);
            copy_inputs(plan, chunk, &x[block * ROWS * inputs..][..rows * inputs], own);
            let values = values.grown(rows * depth);
            plan.isa.vectors().run(Values { splines: plan.splines, inputs: own, values });
            let tiles = grown(left, depth / TILE_LANES * steps_of);
            let factor = Bf16Factor { numbers: values, pitch: depth, rows_are_lanes: false };
            pack_rows(plan, factor, [depth, rows], tiles);
            plan.unit.run(|multiply| {
                for (panel, b) in right.chunks_exact(2 * steps_of).enumerate() {
                    let b = b.split_at(steps_of);
                    let strips = sums.chunks_exact_mut(BF16_SQUARE * columns);
                    for (sums, a) in strips.zip(tiles.chunks_exact(2 * steps_of)) {
                        let a = a.split_at(steps_of);
                        multiply(square, [a.0, a.1], [b.0, b.1]);
                        add_square(square, sums, columns, panel * BF16_SQUARE);
                    }
                }
            });
        }
        finish(plan, of, chunk, sums, parameters);
    });
}

/// Replaces inputs by their gradients, from those of the values of their functions.
struct Slopes<'a> {
    splines: PixelSplines,
    inputs: &'a mut [f32],
    gradients: &'a mut [f32],
}

impl Kernel for Slopes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { splines, inputs, gradients } = self;
        let pitch = splines.terms() * S::LANES;
        splines.gradients(simd, 0, inputs, gradients, pitch, &mut [], &mut []);
    }
}
