//! The gradients of some channels of a convolution.

use std::ops::Range;

use updraft_simd::matrix::{
    Left, Right, Rows, Target, multiply, pack_transposed, padded, tile_rows, width,
};
use updraft_simd::{Simd, dispatch};

use super::forward::load;
use super::plan::Plan;
use super::region::Block;
use crate::kernels::dense::backward::Results;
use crate::kernels::dense::layer::{DenseWeights, Parameters};
use crate::kernels::dense::panel::{Lanes, base, base_gradients, gradients, values};
use crate::kernels::dense::plan::Wants;
use crate::kernels::dense::scratch::DenseSpace;

/// What all tasks share.
pub(super) struct Job<'a> {
    pub(super) plan: &'a Plan<'a>,
    pub(super) weights: &'a DenseWeights<'a>,
    pub(super) parameters: &'a Parameters<'a>,
    pub(super) x: &'a [f32],
    pub(super) dy: &'a [f32],
    pub(super) wants: Wants,
}

/// Some channels of a group and blocks of outputs, with where their gradients go.
pub(super) struct Task<'a> {
    pub(super) group: usize,
    pub(super) chunk: Range<usize>,
    pub(super) blocks: Range<usize>,
    /// Of the pixels, for each image and channel.
    pub(super) dx: Vec<&'a mut [f32]>,
    pub(super) results: Results<'a>,
    /// Of the functions' parameters, `[channels][parameters]`.
    pub(super) sums: &'a mut [f64],
}

dispatch! {
    /// Computes the gradients of a task.
    pub(super) fn run(simd, job: &Job<'_>, task: Task<'_>, space: &mut DenseSpace) {
        compute(simd, job, task, space);
    }
}

#[inline(always)]
fn compute<S: Simd>(simd: S, job: &Job<'_>, task: Task<'_>, space: &mut DenseSpace) {
    let &Job { plan, weights, parameters, x, wants, .. } = job;
    let Task { group, chunk, blocks, mut dx, results, sums } = task;
    let (region, layer) = (&plan.region, plan.conv.pixel);
    let (count, outputs, activation) = (layer.count(), layer.outputs, layer.activation);
    let (line, pitch, width) = (region.line(), region.pitch(), width::<S>());
    let has_base = weights.base.is_some();
    let (terms, of_functions) = (chunk.len() * plan.terms, chunk.len() * count);
    let (columns_of, lines_of) = (chunk.len() * line, terms * line);
    let of_tap = terms.next_multiple_of(tile_rows::<S>()) * outputs;
    let taps = region.taps().len();
    let padded = padded::<S>(outputs);

    let DenseSpace { columns: [columns, slopes], panel, gradients: upstream, .. } = space;
    let DenseSpace { weights: packed, result, lanes, dy: [dy, dy_panels], .. } = space;
    let when = |is_wanted: bool, count: usize| if is_wanted { count } else { 0 };
    let columns = columns.grown(columns_of);
    let slopes = slopes.grown(when(wants.values(), columns_of));
    let panel = panel.grown(lines_of);
    let upstream = upstream.grown(when(wants.values(), lines_of));
    let packed = packed.grown(when(wants.values(), taps * of_tap));
    let of_weights = result.grown(when(wants.weights, taps * terms * padded));
    let dy = dy.grown(outputs * pitch);
    let dy_panels = dy_panels.grown(when(wants.weights, padded * region.most_positions()));
    let lanes = lanes.grown(parameters.trained() * S::LANES);
    if wants.values() {
        for (tap, to) in packed.chunks_exact_mut(of_tap).enumerate() {
            tiles_of_terms::<S>(plan, weights, tap, chunk.clone(), to);
        }
    }

    let first_image = region.block(blocks.start).images().start;
    let first_block = blocks.start;
    for index in blocks {
        let block = region.block(index);
        let positions = region.positions(&block);
        load(plan, &block, x, chunk.clone(), columns);
        load_dy(job, &block, group, dy);
        if wants.values() {
            upstream.fill(0.0);
            for (tiles, &place) in packed.chunks_exact(of_tap).zip(region.taps()) {
                let left = Left::tiles::<S>(tiles, outputs);
                let right = Right { panels: dy, pitch: [width, pitch] };
                let to = &mut upstream[place..];
                let sizes = [terms, outputs, positions];
                multiply(simd, sizes, left, right, to, line, Target::Sum);
            }
            let (weights, of_base) = upstream.split_at_mut(of_functions * line);
            let lines = Lanes { columns, weights, panel, slopes, lanes, pitch: line };
            let inputs = chunk.clone();
            if wants.functions {
                gradients::<S, true>(simd, layer, parameters, inputs, line, lines, sums);
            } else {
                gradients::<S, false>(simd, layer, parameters, inputs, line, lines, sums);
            }
            if wants.x {
                if has_base {
                    let sizes = [chunk.len(), line, line];
                    base_gradients(simd, activation, sizes, [columns, of_base], slopes, true);
                }
                add_to_pixels(plan, &block, slopes, &mut dx, [first_image, chunk.len()]);
            }
        } else {
            values(simd, layer, parameters, chunk.clone(), columns, panel, [line, line]);
        }
        if wants.weights {
            if has_base {
                let panel = &mut panel[of_functions * line..];
                base(simd, activation, columns, panel, [chunk.len(), line, line]);
            }
            let rows = Rows { numbers: dy, pitch, count: outputs, len: positions };
            pack_transposed(simd, width, rows, dy_panels);
            let target = if index == first_block { Target::Replaced } else { Target::Sum };
            let right = Right { panels: dy_panels, pitch: [positions * width, width] };
            let sums = of_weights.chunks_exact_mut(terms * padded);
            for (sums, &place) in sums.zip(region.taps()) {
                let left = Left::new(&panel[place..lines_of], [line, 1]);
                multiply(simd, [terms, positions, outputs], left, right, sums, padded, target);
            }
        }
    }
    if wants.weights {
        write_weights(plan, of_weights, [terms, padded], results);
    }
}

/// Packs a tap's weights of some channels for the gradients of values: tiles of terms, those of the
/// functions first.
#[inline(always)]
fn tiles_of_terms<S: Simd>(
    plan: &Plan<'_>,
    weights: &DenseWeights<'_>,
    tap: usize,
    chunk: Range<usize>,
    to: &mut [f32],
) {
    let (outputs, count) = (plan.conv.pixel.outputs, plan.conv.pixel.count());
    let of_functions = chunk.len() * count;
    let height = tile_rows::<S>();
    let mut row = |term: usize, numbers: &[f32]| {
        let first = term / height * outputs * height + term % height;
        for (to, &number) in to[first..].iter_mut().step_by(height).zip(numbers) {
            *to = number;
        }
    };
    for (index, (functions, base)) in plan.rows_of(weights, tap, chunk).enumerate() {
        for (function, numbers) in functions.chunks_exact(outputs).enumerate() {
            row(index * count + function, numbers);
        }
        if let Some(base) = base {
            row(of_functions + index, base);
        }
    }
}

/// Reads the gradients of a block's outputs, a line for each output of the group; between the rows
/// they are 0.
#[inline(always)]
fn load_dy(job: &Job<'_>, block: &Block, group: usize, lines: &mut [f32]) {
    let (region, outputs) = (&job.plan.region, job.plan.conv.pixel.outputs);
    let (pixels, pitch) = (job.plan.shapes.out_pixels(), region.pitch());
    let all = job.plan.conv.geometry.groups * outputs;
    lines.fill(0.0);
    region.for_outputs(block, |run| {
        for (output, line) in lines.chunks_exact_mut(pitch).enumerate() {
            let plane = run.image * all + group * outputs + output;
            let from = &job.dy[plane * pixels + run.pixel..][..run.count];
            line[run.line..][..run.count].copy_from_slice(from);
        }
    });
}

/// Adds lines of channels to the gradients of the pixels that a block sees.
#[inline(always)]
fn add_to_pixels(
    plan: &Plan<'_>,
    block: &Block,
    lines: &[f32],
    planes: &mut [&mut [f32]],
    [first_image, channels]: [usize; 2],
) {
    let (region, step) = (&plan.region, plan.region.step());
    for (channel, line) in lines.chunks_exact(region.line()).enumerate() {
        region.for_pixels(block, |run| {
            let plane = &mut planes[(run.image - first_image) * channels + channel];
            let to = plane[run.pixel..].iter_mut().step_by(step);
            for (to, from) in to.zip(&line[run.line..][..run.count]) {
                *to += from;
            }
        });
    }
}

/// Writes the sums of all taps, `[taps][terms][outputs]`, in the order of the weights.
#[inline(always)]
fn write_weights(plan: &Plan<'_>, sums: &[f32], [terms, padded]: [usize; 2], results: Results<'_>) {
    let (outputs, count) = (plan.conv.pixel.outputs, plan.conv.pixel.count());
    let taps = plan.conv.geometry.taps();
    let of_functions = terms / plan.terms * count;
    let row = |tap: usize, term: usize| &sums[(tap * terms + term) * padded..][..outputs];
    let Results { coefficients, base } = results;
    if let Some(coefficients) = coefficients {
        for (index, to) in coefficients.chunks_exact_mut(outputs).enumerate() {
            let (input, function) = (index / count, index % count);
            to.copy_from_slice(row(input % taps, input / taps * count + function));
        }
    }
    if let Some(base) = base.filter(|_| terms > of_functions) {
        for (input, to) in base.chunks_exact_mut(outputs).enumerate() {
            to.copy_from_slice(row(input % taps, of_functions + input / taps));
        }
    }
}
