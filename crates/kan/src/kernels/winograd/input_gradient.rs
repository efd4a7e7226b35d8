//! The gradients of a convolution's images.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use updraft_simd::matrix::{Left, Right, Target, multiply};
use updraft_simd::pixels::by_pixel;
use updraft_simd::winograd::{TAPS, Transform, spread};
use updraft_simd::{Kernel, Simd, over};

use super::coefficients::lens;
use super::forward::{Seen, to_points, to_results, write};
use super::plan::{Plan, SQUARE};
use super::space::Space;
use crate::kernels::coefficients::Coefficients;
use crate::kernels::pixel_functions::PixelFunctions;

/// Computes the gradients `dx` of images, and those of the functions' trained parameters if `sums`,
/// `[pieces][channels][parameters]`, is not empty.
///
/// Returns whether all gradients of the functions' values are finite; otherwise `dx` and `sums`
/// are unspecified.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs and memory")]
pub(crate) fn input_gradient<F: PixelFunctions, W: AsMut<Space> + Send>(
    plan: &Plan,
    functions: F,
    coefficients: &Coefficients<'_>,
    x: &[f32],
    dy: &[f32],
    dx: Option<&mut [f32]>,
    sums: &mut [f64],
    packed: &mut [f32],
    spaces: &mut [W],
) -> bool {
    let [_, len] = lens(plan);
    let blocks = plan.blocks();
    let all: Vec<_> = packed.chunks_exact_mut(len).take(plan.groups * blocks).collect();
    over(all, spaces, |index, to, space| {
        let place = [index / blocks, index % blocks];
        coefficients.by_term(plan, place, space.as_mut(), to);
    });
    let is_finite = AtomicBool::new(true);
    let pass = &Pass { plan, functions, x, dy, packed, is_finite: &is_finite };
    over(tasks(plan, functions, dx, sums), spaces, |_, task, space| {
        let vectors = plan.isa.vectors();
        vectors.run(Gradients { pass, task, space: space.as_mut() });
    });
    is_finite.into_inner()
}

/// What all tasks share.
struct Pass<'a, F> {
    plan: &'a Plan,
    functions: F,
    x: &'a [f32],
    dy: &'a [f32],
    packed: &'a [f32],
    is_finite: &'a AtomicBool,
}

/// A block of channels in some images.
struct Task<'a> {
    images: Range<usize>,
    /// Group and block.
    place: [usize; 2],
    /// The gradients of each image and channel.
    dx: Vec<&'a mut [f32]>,
    /// Those of trained parameters, `[channels][parameters]`.
    sums: &'a mut [f64],
}

fn tasks<'a, F: PixelFunctions>(
    plan: &Plan,
    functions: F,
    dx: Option<&'a mut [f32]>,
    mut sums: &'a mut [f64],
) -> Vec<Task<'a>> {
    let trained = if sums.is_empty() { 0 } else { functions.trained() };
    let mut tasks = Vec::new();
    let pieces = plan.pieces_of_images();
    for piece in 0..pieces.count() {
        for index in 0..plan.groups * plan.blocks() {
            let place = [index / plan.blocks(), index % plan.blocks()];
            let [_, count] = plan.channels_of(place[0], place[1]);
            tasks.push(Task {
                images: pieces.images_of(piece),
                place,
                dx: Vec::new(),
                sums: sums.split_off_mut(..count * trained).unwrap_or_default(),
            });
        }
    }
    let Some(dx) = dx else { return tasks };
    let [height, width] = plan.input;
    let channels = plan.groups * plan.channels[0];
    for (index, plane) in dx.chunks_exact_mut(height * width).enumerate() {
        let (image, channel) = (index / channels, index % channels);
        let (group, within) = (channel / plan.channels[0], channel % plan.channels[0]);
        let block = group * plan.blocks() + within / plan.lanes();
        tasks[image / pieces.images * plan.groups * plan.blocks() + block].dx.push(plane);
    }
    tasks
}

/// Computes the gradients of a task.
struct Gradients<'a, 'b, F> {
    pass: &'a Pass<'a, F>,
    task: Task<'b>,
    space: &'a mut Space,
}

impl<F: PixelFunctions> Kernel for Gradients<'_, '_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { pass, task: Task { images, place, mut dx, sums }, space } = self;
        let &Pass { plan, functions, x, packed, .. } = pass;
        let trained = if sums.is_empty() { 0 } else { functions.trained() };
        // Parameters of the functions have gradients from the padding, too. Results beyond it, which fill
        // the last tiles, are zero up to rounding.
        let margin = if trained > 0 { plan.padding } else { [0; 2] };
        let tiling = plan.of_inputs(margin);
        let [_, outputs] = plan.channels;
        let filled = outputs.next_multiple_of(S::LANES);
        let (depth, panel) = (plan.depth(), plan.panel());
        let pitch = spread(tiling.tiles() * filled);
        let products_pitch = spread(tiling.tiles() * depth);
        let [_, len] = lens(plan);
        let coefficient_pitch = plan.coefficient_pitches()[1];
        let coefficients = &packed[(place[0] * plan.blocks() + place[1]) * len..][..len];
        let [_, count] = plan.channels_of(place[0], place[1]);
        let Space { columns, values, points, products, results, lanes } = space;
        let points = points.grown(SQUARE * pitch);
        let products = products.grown(SQUARE * products_pitch);
        let (lanes, scratch) =
            lanes.grown(trained * S::LANES + depth).split_at_mut(trained * S::LANES);
        let before = [0, 1].map(|axis| (TAPS - 1 - plan.padding[axis] + margin[axis]) as isize);
        for strip in tiling.strips(images.clone()) {
            for own in tiling.boxes(&strip) {
                let window = own.window();
                for (index, image) in strip.images.clone().enumerate() {
                    let of = OutputGradient { plan, dy: pass.dy, group: place[0] };
                    let pixels = values.grown(window[0] * window[1] * filled);
                    of.pixels(image, own.first_seen(before), window, filled, pixels);
                    let to = &mut points[index * own.tiles() * filled..];
                    to_points(plan, Transform::Input, &own, pixels, filled, pitch, to);
                }
                let tiles = strip.images.len() * own.tiles();
                for point in 0..SQUARE {
                    let left = Left::new(&points[point * pitch..][..tiles * filled], [filled, 1]);
                    let panels = &coefficients[point * coefficient_pitch..][..coefficient_pitch];
                    let right = Right { panels, pitch: [outputs * panel, panel] };
                    let to = &mut products[point * products_pitch..][..tiles * depth];
                    let sizes = [tiles, outputs, depth];
                    multiply(simd, sizes, left, right, to, depth, Target::Replaced);
                }
                let [height, width] = own.results();
                let results = results.grown(height * width * depth);
                let columns = columns.grown(height * width * S::LANES);
                for (index, image) in strip.images.clone().enumerate() {
                    let from = &products[index * own.tiles() * depth..];
                    if !to_results(plan, &own, from, [depth, products_pitch], depth, results) {
                        pass.is_finite.store(false, Ordering::Relaxed);
                        return;
                    }
                    let first = own.first_seen(margin.map(|margin| margin as isize));
                    let seen = Seen { plan, x, own: &own, place };
                    let channel = seen.pixels(image, first, [height, width], columns);
                    lanes.fill(0.0);
                    functions.gradients(simd, channel, columns, results, depth, lanes, scratch);
                    for (lane, sums) in sums.chunks_exact_mut(trained.max(1)).enumerate() {
                        for (sum, lanes) in sums.iter_mut().zip(lanes.chunks_exact(S::LANES)) {
                            *sum += f64::from(lanes[lane]);
                        }
                    }
                    if dx.is_empty() {
                        continue;
                    }
                    let dx = &mut dx[(image - images.start) * count..][..count];
                    let part = own.part(plan.input, margin);
                    write(plan, &own, part, [columns, &[]], S::LANES, plan.input[1], dx);
                }
            }
        }
    }
}

/// The gradients of a group's outputs.
pub(super) struct OutputGradient<'a> {
    pub(super) plan: &'a Plan,
    pub(super) dy: &'a [f32],
    pub(super) group: usize,
}

impl OutputGradient<'_> {
    /// Copies pixels of an image, `[pixels][filled]`, with zeros outside of it and after the last
    /// output.
    pub(super) fn pixels(
        &self,
        image: usize,
        first: [isize; 2],
        window: [usize; 2],
        filled: usize,
        to: &mut [f32],
    ) {
        let Self { plan, dy, group } = *self;
        let (plane, outputs) = (plan.output[0] * plan.output[1], plan.channels[1]);
        let dy = &dy[(image * plan.groups + group) * outputs * plane..][..outputs * plane];
        by_pixel(plan.isa, dy, plane, [outputs, filled], plan.output, first, window, to);
    }
}
