//! A convolution's outputs for a batch of images.

use updraft_simd::{Isa, over};

use super::geometry::{ConvGeometry, Shapes};
use super::view::View;
use crate::kernels::cpu::{ConvJob, conv_tile, numbers_of_conv, pack_conv};
use crate::kernels::geometry::Weights;
use crate::kernels::scratch::Scratch;

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
