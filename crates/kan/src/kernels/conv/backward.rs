//! The backward pass of a convolution for a batch of images.

use updraft_simd::{Isa, over};

use super::forward::{by_winograd, coefficients};
use super::geometry::{ConvGeometry, Shapes};
use super::line::Lines;
use crate::kernels::backward::{Outputs, SumsLayout};
use crate::kernels::coefficients::{CoefficientGradients, Coefficients};
use crate::kernels::cpu::{
    ConvGradientJob, PixelSplines, gradient_tile, numbers_of_conv, pack_conv, pixel_values,
    rows_of_weights,
};
use crate::kernels::geometry::{Gradients, Weights};
use crate::kernels::scratch::Scratch;
use crate::kernels::winograd::{Plan, input_gradient, weight_gradient};

/// Input channels whose gradients are computed together.
const CHANNELS: usize = 8;

/// Number of tasks into which the batch of a convolution with few channels is divided, so that all
/// threads have work.
const TASKS: usize = 8;

/// Computes the gradients of `Σ y·dy`; the caller has checked all sizes.
///
/// Without `has_spline`, only the base branch is computed.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
pub(super) fn backward(
    isa: Isa,
    geometry: &ConvGeometry,
    weights: &Weights<'_>,
    has_spline: bool,
    shapes: Shapes,
    x: &[f32],
    dy: &[f32],
    gradients: Gradients<'_>,
    scratch: &mut Scratch,
    threads: usize,
) {
    let Gradients { x: mut dx, mut spline, mut base, mut scaler, bias } = gradients;
    if let Some(bias) = bias {
        sum_pixels(dy, shapes.out_pixels(), bias);
    }
    if let Some((plan, splines)) = by_winograd(isa, geometry, weights, has_spline, shapes) {
        let wanted = CoefficientGradients {
            functions: spline.as_deref_mut().filter(|_| has_spline),
            base: base.as_deref_mut(),
            factors: scaler.as_deref_mut().filter(|_| has_spline),
        };
        let of = (&plan, splines, &coefficients(geometry, weights, splines));
        if with_plan(of, x, dy, dx.as_deref_mut(), wanted, scratch, threads) {
            return;
        }
    }
    let lines = Lines::new(geometry, shapes);
    let (channels, groups) = (geometry.in_channels(), geometry.groups());
    let (of_group, outputs) = (channels / groups, geometry.pixel.out_features());
    let width = gradient_tile(isa, outputs);
    let columns = outputs.next_multiple_of(isa.lanes());
    let of_channel = numbers_of_conv(isa, geometry, weights);
    let outputs_of = Outputs { spline, base, scaler };
    let is_summed = outputs_of.is_wanted();

    let Cut { blocks, images, pieces } = Cut::new(geometry, shapes);
    let of_box = lines.region() * columns;
    let boxes = lines.boxes();
    let of_dy = shapes.batch * groups * boxes * of_box;
    let of_weights = if dx.is_some() { channels * of_channel } else { 0 };
    let of_sums = if is_summed { pieces * channels * of_channel } else { 0 };
    let (shared, spaces) =
        scratch.split(of_dy + of_weights + of_sums, updraft_simd::threads(threads));
    let (packed_dy, shared) = shared.split_at_mut(of_dy);
    let (packed, sums) = shared.split_at_mut(of_weights);

    if of_dy > 0 {
        let all = packed_dy.chunks_mut(of_box).enumerate().collect::<Vec<_>>();
        over(all, spaces, |_, (index, to), _| {
            let (image, index) = (index / boxes, index % boxes);
            let of_image = outputs * shapes.out_pixels();
            let dy = &dy[image * of_image..][..of_image];
            lines.pack(index, dy, outputs, width, to);
        });
    }
    let all = packed.chunks_mut(of_channel).enumerate().collect::<Vec<_>>();
    over(all, spaces, |_, (channel, to), _| {
        pack_conv(isa, geometry, weights, channel, width, to);
    });
    let (packed_dy, packed) = (&*packed_dy, &*packed);

    let wants_x = dx.is_some();
    // The part of each image's gradients that a task writes.
    let mut own_dx: Vec<Vec<&mut [f32]>> = Vec::new();
    own_dx.resize_with(pieces * blocks, Vec::new);
    if let Some(dx) = &mut dx {
        dx.fill(0.0);
        let pixels = shapes.in_pixels();
        if pixels > 0 {
            for (image, dx) in dx.chunks_exact_mut(channels * pixels).enumerate() {
                let of_blocks = dx
                    .chunks_exact_mut(of_group * pixels)
                    .flat_map(|group| group.chunks_mut(CHANNELS * pixels));
                for (block, dx) in of_blocks.enumerate() {
                    own_dx[image / images * blocks + block].push(dx);
                }
            }
        }
    }
    let mut sums_left = &mut *sums;
    let mut tasks = Vec::new();
    for (task, dx) in own_dx.into_iter().enumerate() {
        let (piece, block) = (task / blocks, task % blocks);
        let of_blocks = of_group.div_ceil(CHANNELS);
        let start = block / of_blocks * of_group + block % of_blocks * CHANNELS;
        let end = (start + CHANNELS).min((block / of_blocks + 1) * of_group);
        let own = if is_summed {
            let own = sums_left.split_off_mut(..(end - start) * of_channel);
            Some(own.expect("the work space was cut by the same plan"))
        } else {
            None
        };
        let job = ConvGradientJob {
            geometry,
            lines: &lines,
            has_spline,
            has_base: weights.base.is_some(),
            images: (piece * images).min(shapes.batch)..((piece + 1) * images).min(shapes.batch),
            channels: start..end,
            packed: if packed.is_empty() {
                packed
            } else {
                &packed[start * of_channel..end * of_channel]
            },
            width,
            x,
            dy: packed_dy,
        };
        tasks.push((job, own, dx));
    }
    over(tasks, spaces, |_, (job, sums, mut own), space| {
        job.run(isa, sums, wants_x.then_some(&mut own[..]), space);
    });
    if !is_summed {
        return;
    }

    let beyond = Beyond::new(geometry, shapes, dy);
    let pieces: Vec<&[f32]> = sums.chunks_exact(channels * of_channel).collect();
    let layout = SumsLayout {
        isa,
        tile: width,
        width: columns,
        rows_of_weights: rows_of_weights(&geometry.pixel, weights),
    };
    let taps = geometry.taps();
    let own: Vec<_> =
        outputs_of.blocks(geometry.edges() / channels, geometry.grid().bases(), channels);
    over(own, spaces, |channel, outputs: Outputs<'_>, space| {
        let place = channel * of_channel..(channel + 1) * of_channel;
        let mut first = std::mem::take(&mut space.sums);
        let sums = first.grown(of_channel);
        sums.fill(0.0);
        for piece in &pieces {
            for (sum, part) in sums.iter_mut().zip(&piece[place.clone()]) {
                *sum += part;
            }
        }
        beyond.add(isa, geometry, weights, has_spline, channel, width, sums);
        let inputs = channel * taps..(channel + 1) * taps;
        outputs.finish(&layout, &geometry.pixel, weights, inputs, &[sums]);
        space.sums = first;
    });
}

/// Computes gradients by Winograd's algorithm, and returns whether all sums are finite; otherwise the
/// gradients are unspecified.
fn with_plan(
    (plan, splines, coefficients): (&Plan, PixelSplines, &Coefficients<'_>),
    x: &[f32],
    dy: &[f32],
    dx: Option<&mut [f32]>,
    wanted: CoefficientGradients<'_>,
    scratch: &mut Scratch,
    threads: usize,
) -> bool {
    let threads = updraft_simd::threads(threads);
    if dx.is_some() {
        let (packed, spaces) = scratch.split(plan.input_gradient_len(), threads);
        let of = coefficients;
        if !input_gradient(plan, splines, of, x, dy, dx, &mut [], packed, spaces) {
            return false;
        }
    }
    if !wanted.is_wanted() {
        return true;
    }
    let (sums, spaces) = scratch.split(plan.weight_gradient_len(), threads);
    weight_gradient(plan, splines, coefficients, x, dy, wanted, sums, spaces)
}

/// The partition of a pass: it depends on the layer and the batch, not on the number of threads.
pub(super) struct Cut {
    /// Blocks of channels.
    pub(super) blocks: usize,
    /// Images of a piece of the batch.
    images: usize,
    pub(super) pieces: usize,
}

impl Cut {
    pub(super) fn new(geometry: &ConvGeometry, shapes: Shapes) -> Self {
        let groups = geometry.groups();
        let blocks = groups * (geometry.in_channels() / groups).div_ceil(CHANNELS);
        let images = shapes.batch.div_ceil((TASKS / blocks).max(1)).max(1);
        Self { blocks, images, pieces: shapes.batch.div_ceil(images).max(1) }
    }
}

/// The contribution of the zero padding, which is the same for all channels.
struct Beyond {
    /// The sums of `dy` over the outputs whose pixel of a tap is beyond the image,
    /// `[groups][taps][outputs]`; empty if there are none.
    sums: Vec<f32>,
}

impl Beyond {
    fn new(geometry: &ConvGeometry, shapes: Shapes, dy: &[f32]) -> Self {
        if geometry.axes.iter().all(|axis| axis.padding == 0) {
            return Self { sums: Vec::new() };
        }
        let (groups, outputs, taps) =
            (geometry.groups(), geometry.pixel.out_features(), geometry.taps());
        let pixels = shapes.out_pixels();
        let mut sums = vec![0.0_f32; groups * taps * outputs];
        for (tap, place) in geometry.places().enumerate() {
            // The outputs along each axis whose pixel of the tap is in the image.
            let inside: [_; 3] = std::array::from_fn(|axis| {
                let own = geometry.axes[axis];
                let first = place[axis] * own.dilation;
                let start = own.padding.saturating_sub(first).div_ceil(own.stride);
                let end =
                    (own.padding + shapes.input[axis]).saturating_sub(first).div_ceil(own.stride);
                let start = start.min(shapes.output[axis]);
                start..end.min(shapes.output[axis]).max(start)
            });
            let [depth, height, width] = inside;
            let [_, rows, line] = shapes.output;
            for channel in 0..groups * outputs {
                let mut sum = 0.0_f64;
                for image in 0..shapes.batch {
                    let plane = (image * groups * outputs + channel) * pixels;
                    for (row, dy) in dy[plane..plane + pixels].chunks_exact(line).enumerate() {
                        let (z, y) = (row / rows, row % rows);
                        let wide = |dy: &[f32]| dy.iter().map(|&dy| f64::from(dy)).sum::<f64>();
                        sum += if depth.contains(&z) && height.contains(&y) {
                            wide(&dy[..width.start]) + wide(&dy[width.end..])
                        } else {
                            wide(dy)
                        };
                    }
                }
                sums[(channel / outputs * taps + tap) * outputs + channel % outputs] = sum as f32;
            }
        }
        Self { sums }
    }

    /// Adds it to a channel's sums, `[tiles, taps, rows of weights, outputs of the tile]`.
    #[expect(clippy::too_many_arguments, reason = "what the sums are of")]
    fn add(
        &self,
        isa: Isa,
        geometry: &ConvGeometry,
        weights: &Weights<'_>,
        has_spline: bool,
        channel: usize,
        width: usize,
        to: &mut [f32],
    ) {
        if self.sums.is_empty() {
            return;
        }
        let (outputs, taps) = (geometry.pixel.out_features(), geometry.taps());
        let (window, values) = pixel_values(isa, geometry, weights.base.is_some(), channel, 0.0);
        let bases = geometry.grid().bases();
        let degree = geometry.grid().degree();
        let rows = rows_of_weights(&geometry.pixel, weights);
        let columns = to.len() / (taps * rows);
        let group = channel / (geometry.in_channels() / geometry.groups());
        for tap in 0..taps {
            let sums = &self.sums[(group * taps + tap) * outputs..][..outputs];
            for (index, value) in values.iter().enumerate() {
                let is_base = index > degree;
                if !is_base && !has_spline {
                    continue;
                }
                let row = if is_base { bases } else { window + index };
                for column in (0..outputs).step_by(width) {
                    let own = width.min(columns - column);
                    let to = &mut to[column * taps * rows + (tap * rows + row) * own..][..own];
                    for (to, sum) in to.iter_mut().zip(&sums[column..]) {
                        *to += value * sum;
                    }
                }
            }
        }
    }
}

/// The sums over all images and pixels, in f64.
pub(crate) fn sum_pixels(dy: &[f32], pixels: usize, sums: &mut [f32]) {
    let mut wide = vec![0.0_f64; sums.len()];
    if pixels > 0 {
        for (index, plane) in dy.chunks_exact(pixels).enumerate() {
            let all = plane.iter().map(|&dy| f64::from(dy)).sum::<f64>();
            wide[index % sums.len()] += all;
        }
    }
    for (sum, wide) in sums.iter_mut().zip(wide) {
        *sum = wide as f32;
    }
}
