//! The gradients of a convolution's coefficients.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use updraft_simd::matrix::{Left, Right, Target, multiply};
use updraft_simd::winograd::{Transform, spread};
use updraft_simd::{Kernel, Simd, over};

use super::coefficients::{KERNEL, lens};
use super::forward::{Seen, to_points};
use super::input_gradient::OutputGradient;
use super::plan::{Plan, SQUARE};
use super::space::Space;
use crate::kernels::coefficients::{CoefficientGradients, Coefficients};
use crate::kernels::pixel_functions::PixelFunctions;

/// Computes the gradients of the coefficients, and returns whether all sums are finite; otherwise the
/// gradients are unspecified.
///
/// Pieces of the batch are summed one after the other, whatever the number of threads.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs and memory")]
pub(crate) fn weight_gradient<F: PixelFunctions, W: AsMut<Space> + Send>(
    plan: &Plan,
    functions: F,
    coefficients: &Coefficients<'_>,
    x: &[f32],
    dy: &[f32],
    mut wanted: CoefficientGradients<'_>,
    sums: &mut [f32],
    spaces: &mut [W],
) -> bool {
    let [len, _] = lens(plan);
    let (blocks, parts) = (plan.blocks(), plan.pieces_of_sums());
    let pieces = parts.count();
    let place = |index: usize| [index / blocks % plan.groups, index % blocks];
    let all: Vec<_> = sums.chunks_exact_mut(len).take(pieces * plan.groups * blocks).collect();
    let pass = &Pass { plan, functions, x, dy };
    over(all, spaces, |index, sums, space| {
        let images = parts.images_of(index / (plan.groups * blocks));
        let task = Sums { pass, images, place: place(index), sums, space: space.as_mut() };
        plan.isa.vectors().run(task);
    });

    let (sum, others) = sums.split_at_mut(plan.groups * blocks * len);
    let others = &*others;
    let mut tasks = Vec::new();
    for (index, sums) in sum.chunks_exact_mut(len).enumerate() {
        let [group, block] = place(index);
        let [_, count] = plan.channels_of(group, block);
        tasks.push((sums, wanted.take(count * KERNEL, coefficients)));
    }
    let is_finite = AtomicBool::new(true);
    over(tasks, spaces, |index, (sums, wanted), space| {
        for piece in 1..pieces {
            let other = &others[((piece - 1) * plan.groups * blocks + index) * len..][..len];
            for (sum, number) in sums.iter_mut().zip(other) {
                *sum += number;
            }
        }
        if !coefficients.gradients(plan, place(index), sums, space.as_mut(), wanted) {
            is_finite.store(false, Ordering::Relaxed);
        }
    });
    is_finite.into_inner()
}

/// What all tasks share.
struct Pass<'a, F> {
    plan: &'a Plan,
    functions: F,
    x: &'a [f32],
    dy: &'a [f32],
}

/// Computes the sums of a block of channels over some images, `[points][terms][outputs]`.
struct Sums<'a, F> {
    pass: &'a Pass<'a, F>,
    images: Range<usize>,
    /// Group and block.
    place: [usize; 2],
    sums: &'a mut [f32],
    space: &'a mut Space,
}

impl<F: PixelFunctions> Kernel for Sums<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { pass, images, place, sums, space } = self;
        let &Pass { plan, functions, x, dy } = pass;
        let tiling = plan.of_outputs();
        let (depth, outputs, panel) = (plan.depth(), plan.outputs(), plan.panel());
        let pitch = spread(tiling.tiles() * depth);
        let gradients_pitch = spread(tiling.tiles() * outputs);
        let sums_pitch = plan.coefficient_pitches()[0];
        let Space { columns, values, points, products, results, .. } = space;
        let points = points.grown(SQUARE * pitch);
        let gradients = products.grown(SQUARE * gradients_pitch);
        let mut target = Target::Replaced;
        for strip in tiling.strips(images) {
            for own in tiling.boxes(&strip) {
                for (index, image) in strip.images.clone().enumerate() {
                    let seen = Seen { plan, x, own: &own, place };
                    let values = seen.values(simd, functions, image, columns, values);
                    let to = &mut points[index * own.tiles() * depth..];
                    to_points(plan, Transform::Input, &own, values, depth, pitch, to);
                    let of = OutputGradient { plan, dy, group: place[0] };
                    let [height, width] = own.results();
                    let pixels = results.grown(height * width * outputs);
                    of.pixels(image, own.first_seen([0; 2]), [height, width], outputs, pixels);
                    let to = &mut gradients[index * own.tiles() * outputs..];
                    to_points(
                        plan,
                        Transform::Gradient,
                        &own,
                        pixels,
                        outputs,
                        gradients_pitch,
                        to,
                    );
                }
                let tiles = strip.images.len() * own.tiles();
                for point in 0..SQUARE {
                    let left = Left::new(&points[point * pitch..][..tiles * depth], [1, depth]);
                    let panels = &gradients[point * gradients_pitch..][..tiles * outputs];
                    let right = Right { panels, pitch: [panel, outputs] };
                    let to = &mut sums[point * sums_pitch..][..depth * outputs];
                    multiply(simd, [depth, tiles, outputs], left, right, to, outputs, target);
                }
                target = Target::Sum;
            }
        }
    }
}
