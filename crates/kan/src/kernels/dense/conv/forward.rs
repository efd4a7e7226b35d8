//! The outputs of a convolution of functions in closed form.

use std::ops::Range;

use updraft_simd::matrix::{Left, Right, Rows, Target, multiply, tile_rows, width};
use updraft_simd::{Isa, Simd, dispatch, over, threads};

use super::plan::{DenseConv, Plan};
use super::region::{Block, Region};
use crate::kernels::conv::Shapes;
use crate::kernels::dense::layer::{DenseWeights, Parameters};
use crate::kernels::dense::panel::{base, values};
use crate::kernels::dense::scratch::{DenseScratch, DenseSpace};
use crate::kernels::dense::weights::pack_rows;
use crate::kernels::winograd;

/// Computes a convolution's outputs, `[batch, out_channels, pixels]`, of `x`, `[batch, in_channels,
/// pixels]`.
///
/// The bits do not depend on the number of threads.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
pub(crate) fn dense_conv_forward(
    isa: Isa,
    conv: DenseConv<'_>,
    weights: &DenseWeights<'_>,
    x: &[f32],
    shapes: Shapes,
    y: &mut [f32],
    scratch: &mut DenseScratch,
    asked_threads: usize,
) {
    if y.is_empty() {
        return;
    }
    let parameters = &conv.pixel.parameters(weights);
    let has_base = weights.base.is_some();
    let Some((plan, pixels)) = conv.by_winograd(isa, parameters, has_base, shapes) else {
        return directly(isa, conv, weights, x, shapes, y, scratch, asked_threads);
    };
    let (packed, _, spaces) = scratch.split(plan.forward_len(), threads(asked_threads));
    let coefficients = conv.coefficients(weights);
    let failed =
        winograd::forward(&plan, pixels, &coefficients, weights.bias, x, y, packed, spaces);
    let of = [x.len(), y.len()].map(|len| len / shapes.batch);
    for image in failed {
        let (x, y) = (&x[image * of[0]..][..of[0]], &mut y[image * of[1]..][..of[1]]);
        let shapes = Shapes { batch: 1, ..shapes };
        directly(isa, conv, weights, x, shapes, y, scratch, asked_threads);
    }
}

/// Computes the products of every tap: every output is the sum of its terms in the order of channels
/// and taps, whatever the number of threads.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
fn directly(
    isa: Isa,
    conv: DenseConv<'_>,
    weights: &DenseWeights<'_>,
    x: &[f32],
    shapes: Shapes,
    y: &mut [f32],
    scratch: &mut DenseScratch,
    asked_threads: usize,
) {
    let (vectors, threads) = (isa.vectors(), threads(asked_threads));
    let plan = &Plan::new(conv, shapes, weights.base.is_some());
    let parameters = &conv.pixel.parameters(weights);
    let (taps, groups) = (conv.geometry.taps(), conv.geometry.groups);
    let of_channel = plan.terms * taps * plan.tiled_outputs();
    let (shared, _, spaces) = scratch.split(conv.pixel.inputs * of_channel, threads);
    let mut rest = &mut *shared;
    let mut to_pack = Vec::new();
    for (_, chunk) in plan.chunks() {
        let own = rest.split_off_mut(..chunk.len() * of_channel);
        to_pack.push((chunk, own.expect("the work space has room for all channels")));
    }
    over(to_pack, spaces, |_, (chunk, to), _| pack(vectors, plan, weights, chunk, to));

    let outputs = conv.pixel.outputs;
    let job = &Job { plan, weights, parameters, packed: shared, of_channel };
    let tasks = rows_of_blocks(&plan.region, y, shapes, [groups, outputs]);
    over(tasks, spaces, |task, y, space| {
        outputs_of(vectors, job, x, [task / groups, task % groups], y, space);
    });
}

/// The outputs of each block and group: a slice for each image and channel.
fn rows_of_blocks<'a>(
    region: &Region,
    y: &'a mut [f32],
    shapes: Shapes,
    [groups, outputs]: [usize; 2],
) -> Vec<Vec<&'a mut [f32]>> {
    let mut tasks: Vec<Vec<&mut [f32]>> = Vec::new();
    tasks.resize_with(region.blocks() * groups, Vec::new);
    let of_image = region.blocks_of_image();
    for (index, mut plane) in y.chunks_exact_mut(shapes.out_pixels()).enumerate() {
        let (image, group) = (index / (groups * outputs), index / outputs % groups);
        let first = image / region.images_of_block() * of_image;
        for block in first..first + of_image {
            let own = plane.split_off_mut(..region.block(block).pixels());
            tasks[block * groups + group].extend(own);
        }
    }
    tasks
}

/// What all tasks share.
struct Job<'a> {
    plan: &'a Plan<'a>,
    weights: &'a DenseWeights<'a>,
    parameters: &'a Parameters<'a>,
    packed: &'a [f32],
    /// Packed numbers of a channel.
    of_channel: usize,
}

dispatch! {
    /// Packs the weights of some channels: tiles of outputs for each tap.
    fn pack(simd, plan: &Plan<'_>, weights: &DenseWeights<'_>, chunk: Range<usize>, to: &mut [f32]) {
        tiles_of_outputs(simd, plan, weights, chunk, to);
    }

    /// Computes the outputs of a block and group.
    fn outputs_of(simd,
        job: &Job<'_>,
        x: &[f32],
        task: [usize; 2],
        y: Vec<&mut [f32]>,
        space: &mut DenseSpace,
    ) {
        compute(simd, job, x, task, y, space);
    }
}

#[inline(always)]
fn tiles_of_outputs<S: Simd>(
    _simd: S,
    plan: &Plan<'_>,
    weights: &DenseWeights<'_>,
    chunk: Range<usize>,
    to: &mut [f32],
) {
    let (outputs, count) = (plan.conv.pixel.outputs, plan.conv.pixel.count());
    let terms = chunk.len() * plan.terms;
    let of_functions = chunk.len() * count;
    for (tap, to) in to.chunks_exact_mut(terms * plan.tiled_outputs()).enumerate() {
        for (index, (functions, base)) in plan.rows_of(weights, tap, chunk.clone()).enumerate() {
            let rows = Rows { numbers: functions, pitch: outputs, count, len: outputs };
            pack_rows(tile_rows::<S>(), rows, to, terms, index * count);
            if let Some(base) = base {
                let rows = Rows { numbers: base, count: 1, ..rows };
                pack_rows(tile_rows::<S>(), rows, to, terms, of_functions + index);
            }
        }
    }
}

#[inline(always)]
fn compute<S: Simd>(
    simd: S,
    job: &Job<'_>,
    x: &[f32],
    [block, group]: [usize; 2],
    mut y: Vec<&mut [f32]>,
    space: &mut DenseSpace,
) {
    let &Job { plan, weights, parameters, packed, of_channel } = job;
    let (region, layer) = (&plan.region, plan.conv.pixel);
    let (count, outputs, line) = (layer.count(), layer.outputs, region.line());
    let (width, pitch) = (width::<S>(), region.pitch());
    let block = region.block(block);
    let positions = region.positions(&block);
    let DenseSpace { columns: [columns, _], panel, result, .. } = space;
    let columns = columns.grown(plan.most_terms() / plan.terms * line);
    let panel = panel.grown(plan.most_terms() * line);
    let result = result.grown(outputs * pitch);
    let mut target = Target::Replaced;
    for chunk in plan.chunks_of(group) {
        let (terms, of_functions) = (chunk.len() * plan.terms, chunk.len() * count);
        load(plan, &block, x, chunk.clone(), columns);
        values(simd, layer, parameters, chunk.clone(), columns, panel, [line, line]);
        if weights.base.is_some() {
            let panel = &mut panel[of_functions * line..];
            base(simd, layer.activation, columns, panel, [chunk.len(), line, line]);
        }
        let packed = &packed[chunk.start * of_channel..][..chunk.len() * of_channel];
        let tiles = packed.chunks_exact(terms * plan.tiled_outputs());
        for (tiles, &place) in tiles.zip(region.taps()) {
            let left = Left::tiles::<S>(tiles, terms);
            let right = Right { panels: &panel[place..terms * line], pitch: [width, line] };
            multiply(simd, [outputs, terms, positions], left, right, result, pitch, target);
            target = Target::Sum;
        }
    }
    let bias = weights.bias.map(|bias| &bias[group * outputs..][..outputs]);
    let first = block.images().start;
    let mut filled = 0;
    region.for_outputs(&block, |run| {
        let image = run.image - first;
        let place = filled - image * block.pixels();
        for (output, y) in y[image * outputs..][..outputs].iter_mut().enumerate() {
            let (from, to) = (&result[output * pitch + run.line..], &mut y[place..]);
            let bias = bias.map(|bias| bias[output]);
            for (to, from) in to[..run.count].iter_mut().zip(from) {
                *to = bias.map_or(*from, |bias| from + bias);
            }
        }
        filled += run.count;
    });
}

/// Reads the pixels of some channels that a block sees, a line for each channel; padding is 0.
pub(super) fn load(
    plan: &Plan<'_>,
    block: &Block,
    x: &[f32],
    chunk: Range<usize>,
    columns: &mut [f32],
) {
    let (channels, pixels) = (plan.conv.pixel.inputs, plan.shapes.in_pixels());
    let step = plan.region.step();
    for (channel, line) in chunk.zip(columns.chunks_exact_mut(plan.region.line())) {
        line.fill(0.0);
        plan.region.for_pixels(block, |run| {
            let from = &x[(run.image * channels + channel) * pixels + run.pixel..];
            let to = &mut line[run.line..][..run.count];
            if step == 1 {
                to.copy_from_slice(&from[..run.count]);
            } else {
                for (to, from) in to.iter_mut().zip(from.iter().step_by(step)) {
                    *to = *from;
                }
            }
        });
    }
}
