//! Interpolation of images and volumes to another size.

use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use burn::tensor::{Tensor, module};
use updraft_simd::{mark_plain, time_operation};

#[cfg(feature = "cube")]
use super::cube_resize::resize_axes;
use crate::kernels::Alignment;
#[cfg(feature = "cube")]
use crate::ops::listed::is_on_gpu;
use crate::ops::path::LayerPath;

/// What a timer calls both.
const KIND: &str = "resize";

/// Interpolates volumes linearly on every axis, as `PyTorch`'s `interpolate` in mode `trilinear`.
///
/// On flex it runs our kernels, in f32: bf16 and f16 are computed in f32 and rounded once. On GPUs,
/// with the feature of their backend, it blends selected slices of an axis at a time, the same way:
/// burn 0.22.1 has no gradient of its own operation there. f64 on flex and every other backend use
/// that operation on one and two axes, with the same result.
///
/// # Shapes
/// - `x`: `[batch, channels, depth, height, width]`
/// - returns: `[batch, channels, output[0], output[1], output[2]]`
///
/// # Panics
/// If a side is 0.
pub fn resize3d(x: Tensor<5>, output: [usize; 3], alignment: Alignment) -> Tensor<5> {
    time_operation(KIND, || resize(x, output, alignment))
}

fn resize(x: Tensor<5>, output: [usize; 3], alignment: Alignment) -> Tensor<5> {
    match LayerPath::picked(None, &x.device(), x.dtype()) {
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) => {
            use std::sync::Arc;

            use burn::backend::Dispatch;
            use burn::tensor::FloatDType;

            use super::extension::{ResizeSpec, VolumeBackend};
            use crate::kernels::LinearResize;

            let [batch, channels, input @ ..] = x.dims();
            let geometry = LinearResize::try_new(batch * channels, input, output, alignment)
                .unwrap_or_else(|error| panic!("resize: {error}"));
            let spec = ResizeSpec { geometry: Arc::new(geometry), planes: [batch, channels], isa };
            let dtype = x.dtype();
            let x = x.cast(FloatDType::F32).into_dispatch();
            Tensor::<5>::from_dispatch(Dispatch::resizing(x, spec)).cast(dtype)
        }
        _ => {
            mark_plain();
            plain(x, output, alignment)
        }
    }
}

/// The same of images, as `PyTorch`'s `interpolate` in mode `bilinear`.
///
/// # Shapes
/// - `x`: `[batch, channels, height, width]`
/// - returns: `[batch, channels, output[0], output[1]]`
///
/// # Panics
/// If a side is 0.
pub fn resize2d(x: Tensor<4>, output: [usize; 2], alignment: Alignment) -> Tensor<4> {
    if LayerPath::picked(None, &x.device(), x.dtype()) == LayerPath::Plain {
        return time_operation(KIND, || interpolate(x, output, alignment));
    }
    let output = [1, output[0], output[1]];
    resize3d(x.unsqueeze_dim::<5>(2), output, alignment).squeeze_dim::<4>(2)
}

/// The operation on images of backends without our kernels.
fn interpolate(x: Tensor<4>, output: [usize; 2], alignment: Alignment) -> Tensor<4> {
    mark_plain();
    #[cfg(feature = "cube")]
    if is_on_gpu(&x.device()) {
        return resize_axes(x, output, alignment);
    }
    let options = InterpolateOptions::new(InterpolateMode::Bilinear)
        .with_align_corners(alignment == Alignment::Corners)
        .with_output_size(output);
    if x.dims()[2..] == output { x } else { module::interpolate(x, options) }
}

/// Slices as images, then the depth as the height of an image of all pixels.
fn plain(x: Tensor<5>, output: [usize; 3], alignment: Alignment) -> Tensor<5> {
    #[cfg(feature = "cube")]
    if is_on_gpu(&x.device()) {
        return resize_axes(x, output, alignment);
    }
    let [batch, channels, depth, height, width] = x.dims();
    let [new_depth, rows, columns] = output;
    let x = x.reshape([batch, channels * depth, height, width]);
    let x = interpolate(x, [rows, columns], alignment);
    let x = x.reshape([batch, channels, depth, rows * columns]);
    interpolate(x, [new_depth, rows * columns], alignment)
        .reshape([batch, channels, new_depth, rows, columns])
}
