//! The outputs of a convolution.

use std::sync::atomic::{AtomicBool, Ordering};

use updraft_simd::matrix::{Left, Right, Target, multiply};
use updraft_simd::pixels::{by_pixel, transpose};
use updraft_simd::winograd::{POINTS, RESULTS, Squares, Transform, TransformJob, spread};
use updraft_simd::{Kernel, MAX_LANES, Simd, over};

use super::coefficients::lens;
use super::plan::{Plan, SQUARE};
use super::space::Space;
use super::tiling::{Part, Strip, TileBox};
use crate::kernels::coefficients::Coefficients;
use crate::kernels::pixel_functions::PixelFunctions;

/// Computes the outputs `y`, `[batch, out_channels, pixels]`, of images `x`.
///
/// Returns the images that have a result which is not finite: such a number, or a sum that left the
/// range of f32, may have reached results of its tile that it does not belong to.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs and memory")]
pub(crate) fn forward<F: PixelFunctions, W: AsMut<Space> + Send>(
    plan: &Plan,
    functions: F,
    coefficients: &Coefficients<'_>,
    bias: Option<&[f32]>,
    x: &[f32],
    y: &mut [f32],
    packed: &mut [f32],
    spaces: &mut [W],
) -> Vec<usize> {
    let [len, _] = lens(plan);
    let blocks = plan.blocks();
    let all: Vec<_> = packed.chunks_exact_mut(len).take(plan.groups * blocks).collect();
    over(all, spaces, |index, to, space| {
        let place = [index / blocks, index % blocks];
        coefficients.by_output(plan, place, space.as_mut(), to);
    });

    let failed: Vec<AtomicBool> = (0..plan.batch).map(|_| AtomicBool::new(false)).collect();
    let pass = &Pass { plan, functions, bias, x, packed, failed: &failed };
    over(tasks(plan, y), spaces, |_, task, space| {
        let vectors = plan.isa.vectors();
        vectors.run(Outputs { pass, task, space: space.as_mut() });
    });
    let failed = failed.into_iter().enumerate();
    failed.filter_map(|(image, failed)| failed.into_inner().then_some(image)).collect()
}

/// What all tasks share.
struct Pass<'a, F> {
    plan: &'a Plan,
    functions: F,
    bias: Option<&'a [f32]>,
    x: &'a [f32],
    packed: &'a [f32],
    failed: &'a [AtomicBool],
}

/// A strip of a group, and its part of the outputs of each image and channel.
struct Task<'a> {
    group: usize,
    strip: Strip,
    y: Vec<&'a mut [f32]>,
}

fn tasks<'a>(plan: &Plan, y: &'a mut [f32]) -> Vec<Task<'a>> {
    let tiling = plan.of_outputs();
    let mut tasks: Vec<Task<'a>> = Vec::new();
    for strip in tiling.all() {
        tasks.extend((0..plan.groups).map(|group| Task {
            group,
            strip: strip.clone(),
            y: Vec::with_capacity(strip.images.len() * plan.channels[1]),
        }));
    }
    let [height, width] = plan.output;
    let of_image = tiling.strips_of_image();
    for (index, plane) in y.chunks_exact_mut(height * width).enumerate() {
        let (image, group) =
            (index / (plan.groups * plan.channels[1]), index / plan.channels[1] % plan.groups);
        let first = image / tiling.images() * of_image;
        for (strip, rows) in plane.chunks_mut(tiling.rows_of_strip() * width).enumerate() {
            tasks[(first + strip) * plan.groups + group].y.push(rows);
        }
    }
    tasks
}

/// Computes the outputs of a task.
struct Outputs<'a, 'b, F> {
    pass: &'a Pass<'a, F>,
    task: Task<'b>,
    space: &'a mut Space,
}

impl<F: PixelFunctions> Kernel for Outputs<'_, '_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { pass, task: Task { group, strip, mut y }, space } = self;
        let &Pass { plan, functions, x, packed, .. } = pass;
        let tiling = plan.of_outputs();
        let (depth, outputs, panel) = (plan.depth(), plan.outputs(), plan.panel());
        let pitch = spread(tiling.tiles() * depth);
        let products_pitch = spread(tiling.tiles() * outputs);
        let [len, _] = lens(plan);
        let coefficient_pitch = plan.coefficient_pitches()[0];
        let products = space.products.grown(SQUARE * products_pitch);
        for own in tiling.boxes(&strip) {
            let tiles = strip.images.len() * own.tiles();
            for block in 0..plan.blocks() {
                let points = space.points.grown(SQUARE * pitch);
                for (index, image) in strip.images.clone().enumerate() {
                    let columns = &mut space.columns;
                    let place = [group, block];
                    let values = &mut space.values;
                    let seen = Seen { plan, x, own: &own, place };
                    let values = seen.values(simd, functions, image, columns, values);
                    let to = &mut points[index * own.tiles() * depth..];
                    to_points(plan, Transform::Input, &own, values, depth, pitch, to);
                }
                let target = if block == 0 { Target::Replaced } else { Target::Sum };
                let coefficients = &packed[(group * plan.blocks() + block) * len..][..len];
                for point in 0..SQUARE {
                    let left = Left::new(&points[point * pitch..][..tiles * depth], [depth, 1]);
                    let panels = &coefficients[point * coefficient_pitch..][..coefficient_pitch];
                    let right = Right { panels, pitch: [depth * panel, panel] };
                    let to = &mut products[point * products_pitch..][..tiles * outputs];
                    let sizes = [tiles, depth, outputs];
                    multiply(simd, sizes, left, right, to, outputs, target);
                }
            }
            let [height, width] = own.results();
            let results = space.results.grown(height * width * outputs);
            for (index, image) in strip.images.clone().enumerate() {
                let from = &products[index * own.tiles() * outputs..];
                if !to_results(plan, &own, from, [outputs, products_pitch], outputs, results) {
                    pass.failed[image].store(true, Ordering::Relaxed);
                }
                let y = &mut y[index * plan.channels[1]..][..plan.channels[1]];
                let bias = pass.bias.map(|bias| &bias[group * y.len()..][..y.len()]);
                let mut part = own.part(plan.output, [0; 2]);
                // A task has the rows of its strip alone.
                part.to[0] = 0;
                let from = [results, bias.unwrap_or_default()];
                write(plan, &own, part, from, outputs, plan.output[1], y);
            }
        }
    }
}

/// The pixels of a block of channels that a box of outputs sees.
pub(super) struct Seen<'a> {
    pub(super) plan: &'a Plan,
    pub(super) x: &'a [f32],
    pub(super) own: &'a TileBox,
    /// Group and block.
    pub(super) place: [usize; 2],
}

impl Seen<'_> {
    /// The values of their functions in an image, `[pixels][terms][channels]`.
    #[inline(always)]
    pub(super) fn values<'a, S: Simd, F: PixelFunctions>(
        &self,
        simd: S,
        functions: F,
        image: usize,
        columns: &mut updraft_simd::Aligned,
        values: &'a mut updraft_simd::Aligned,
    ) -> &'a [f32] {
        let Self { plan, own, .. } = *self;
        let window = own.window();
        let pixels = window[0] * window[1];
        let columns = columns.grown(pixels * S::LANES);
        let first = own.first_seen(plan.padding.map(|padding| padding as isize));
        let channel = self.pixels(image, first, window, columns);
        let values = values.grown(pixels * plan.depth());
        functions.values(simd, channel, columns, values);
        values
    }

    /// Copies pixels of an image, `[pixels][channels]`, with zeros outside of it and for channels that
    /// do not fill a vector, and returns the first channel.
    pub(super) fn pixels(
        &self,
        image: usize,
        first: [isize; 2],
        window: [usize; 2],
        to: &mut [f32],
    ) -> usize {
        let Self { plan, x, place: [group, block], .. } = *self;
        let plane = plan.input[0] * plan.input[1];
        let [channel, count] = plan.channels_of(group, block);
        let channels = plan.groups * plan.channels[0];
        let x = &x[(image * channels + channel) * plane..][..count * plane];
        by_pixel(plan.isa, x, plane, [count, plan.lanes()], plan.input, first, window, to);
        channel
    }
}

/// The points of the tiles of a box: pixels of so many numbers become points that lie `pitch` apart.
pub(super) fn to_points(
    plan: &Plan,
    transform: Transform,
    own: &TileBox,
    pixels: &[f32],
    numbers: usize,
    pitch: usize,
    to: &mut [f32],
) {
    let columns = match transform {
        Transform::Input => own.window()[1],
        _ => own.results()[1],
    };
    let line = columns * numbers;
    let job = TransformJob {
        transform,
        input: pixels,
        count: own.size,
        channels: numbers,
        from: Squares { apart: [RESULTS * line, RESULTS * numbers], step: [line, numbers] },
        to: Squares { apart: [own.size[1] * numbers, numbers], step: [POINTS * pitch, pitch] },
    };
    job.run(plan.isa, to);
}

/// The results of a box by pixel, `[pixels][row]`, from products of rows that lie `[row, pitch]` apart
/// by tile and point, and whether all of them are finite.
pub(super) fn to_results(
    plan: &Plan,
    own: &TileBox,
    products: &[f32],
    [row, pitch]: [usize; 2],
    channels: usize,
    results: &mut [f32],
) -> bool {
    let line = own.results()[1] * row;
    let job = TransformJob {
        transform: Transform::Results,
        input: products,
        count: own.size,
        channels,
        from: Squares { apart: [own.size[1] * row, row], step: [POINTS * pitch, pitch] },
        to: Squares { apart: [RESULTS * line, RESULTS * row], step: [line, row] },
    };
    job.run(plan.isa, results)
}

/// Writes a part of the pixels of a box, `[pixels][numbers]`, to planes of a width, with each plane's
/// bias.
pub(super) fn write(
    plan: &Plan,
    own: &TileBox,
    Part { of_box: [rows, columns], to: [row, column] }: Part,
    [pixels, bias]: [&[f32]; 2],
    numbers: usize,
    width: usize,
    planes: &mut [&mut [f32]],
) {
    /// Pixels at a time, and numbers from one channel's to the next's: not a power of two.
    const RUN: usize = 128;
    const APART: usize = RUN + MAX_LANES;
    let mut square = [0.0; MAX_LANES * APART];
    let lanes = plan.lanes();
    let line = own.results()[1];
    for (block, planes) in planes.chunks_mut(lanes).enumerate() {
        let bias = bias.get(block * lanes..).unwrap_or_default();
        for (from_row, row) in rows.clone().zip(row..) {
            for first in (0..columns.len()).step_by(RUN) {
                let count = RUN.min(columns.len() - first);
                let place = (from_row * line + columns.start + first) * numbers + block * lanes;
                let size = [count, planes.len()];
                transpose(plan.isa, &pixels[place..], size, numbers, &mut square, APART);
                for (channel, plane) in planes.iter_mut().enumerate() {
                    let to = &mut plane[row * width + column + first..][..count];
                    let from = &square[channel * APART..][..count];
                    match bias.get(channel) {
                        Some(bias) => {
                            for (to, from) in to.iter_mut().zip(from) {
                                *to = from + bias;
                            }
                        }
                        None => to.copy_from_slice(from),
                    }
                }
            }
        }
    }
}
