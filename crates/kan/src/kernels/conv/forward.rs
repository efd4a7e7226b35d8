//! A convolution's outputs for a batch of images.

use updraft_simd::{Isa, over};

use super::geometry::{ConvGeometry, Shapes};
use super::view::View;
use crate::kernels::coefficients::Coefficients;
use crate::kernels::cpu::{ConvJob, PixelSplines, conv_tile, numbers_of_conv, pack_conv};
use crate::kernels::geometry::Weights;
use crate::kernels::scratch::Scratch;
use crate::kernels::winograd::{self, Plan};

/// Computes `y`, `[batch, out_channels, pixels]`; everything fits.
///
/// Without `has_spline`, only the base branch is computed.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
pub(super) fn forward(
    isa: Isa,
    geometry: &ConvGeometry,
    weights: &Weights<'_>,
    has_spline: bool,
    shapes: Shapes,
    x: &[f32],
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    let Some((plan, splines)) = by_winograd(isa, geometry, weights, has_spline, shapes) else {
        return directly(isa, geometry, weights, has_spline, shapes, x, y, scratch, threads);
    };
    let (packed, spaces) = scratch.split(plan.forward_len(), updraft_simd::threads(threads));
    let coefficients = coefficients(geometry, weights, splines);
    let failed =
        winograd::forward(&plan, splines, &coefficients, weights.bias, x, y, packed, spaces);
    let of = [x.len(), y.len()].map(|len| len / shapes.batch);
    for image in failed {
        let (x, y) = (&x[image * of[0]..][..of[0]], &mut y[image * of[1]..][..of[1]]);
        let shapes = Shapes { batch: 1, ..shapes };
        directly(isa, geometry, weights, has_spline, shapes, x, y, scratch, threads);
    }
}

/// The plan for Winograd's algorithm, where it takes less time than computing the products of every
/// tap.
pub(super) fn by_winograd(
    isa: Isa,
    geometry: &ConvGeometry,
    weights: &Weights<'_>,
    has_spline: bool,
    shapes: Shapes,
) -> Option<(Plan, PixelSplines)> {
    let splines = PixelSplines::of(&geometry.pixel, has_spline, weights.base.is_some())?;
    let plan = Plan::of(isa, geometry, shapes, splines.terms(), splines.products())?;
    Some((plan, splines))
}

/// What the splines' values are multiplied with.
pub(super) fn coefficients<'a>(
    geometry: &ConvGeometry,
    weights: &Weights<'a>,
    splines: PixelSplines,
) -> Coefficients<'a> {
    Coefficients {
        functions: weights.spline,
        count: splines.count(),
        base: weights.base,
        factors: weights.scaler,
        outputs: geometry.pixel.out_features(),
    }
}

/// Computes the products of every tap with the bases that are not zero.
#[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs, memory and threads")]
fn directly(
    isa: Isa,
    geometry: &ConvGeometry,
    weights: &Weights<'_>,
    has_spline: bool,
    shapes: Shapes,
    x: &[f32],
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    let view = View::new(geometry, shapes);
    let width = conv_tile(isa, geometry.pixel.out_features());
    let of_channel = numbers_of_conv(isa, geometry, weights);
    let (channels, outputs) = (geometry.in_channels(), geometry.pixel.out_features());
    let threads = updraft_simd::threads(threads);
    let (packed, spaces) = scratch.split(channels * of_channel, threads);
    let own: Vec<_> = packed.chunks_mut(of_channel).enumerate().collect();
    over(own, spaces, |_, (channel, to), _| {
        pack_conv(isa, geometry, weights, channel, width, to);
    });
    let packed = &*packed;

    let (in_pixels, out_pixels) = (shapes.in_pixels(), shapes.out_pixels());
    let of_group = channels / geometry.groups();
    let slab = view.slab_pixels();
    let mut tasks = Vec::new();
    let images = x.chunks_exact(of_group * in_pixels).zip(y.chunks_exact_mut(outputs * out_pixels));
    for (index, (x, y)) in images.enumerate() {
        let group = index % geometry.groups();
        // Each slab's part of all output channels.
        let mut slabs: Vec<Vec<&mut [f32]>> = Vec::new();
        slabs.resize_with(out_pixels.div_ceil(slab), Vec::new);
        for channel in y.chunks_exact_mut(out_pixels) {
            for (slab, part) in slabs.iter_mut().zip(channel.chunks_mut(slab)) {
                slab.push(part);
            }
        }
        tasks.extend(slabs.into_iter().enumerate().map(|(slab, y)| (group, slab, x, y)));
    }
    over(tasks, spaces, |_, (group, slab, x, mut y), space| {
        let job = ConvJob {
            geometry,
            view: &view,
            packed: &packed[group * of_group * of_channel..][..of_group * of_channel],
            has_spline,
            has_base: weights.base.is_some(),
            bias: weights.bias.map(|bias| &bias[group * outputs..][..outputs]),
            width,
            group,
            slab,
            x,
        };
        job.run(isa, &mut y, space);
    });
}
