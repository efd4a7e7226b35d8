//! The same convolution by burn's own operations: for other backends, and as the reference of our
//! tests.

use burn::tensor::module::conv3d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, FloatDType, Int, Shape, Tensor};
use updraft_simd::mark_plain;

use super::layer::Parameters;
use super::plain::{activate, bases};
use crate::kernels::{BaseBranch, ConvGeometry};

/// Every basis of every pixel is stored as a channel, then burn's convolution over three axes.
pub(super) fn conv<const D: usize>(
    x: Tensor<D>,
    parameters: Parameters,
    geometry: &ConvGeometry,
    output: &[usize],
) -> Tensor<D> {
    mark_plain();
    let dtype = x.dtype();
    let compute = if dtype == DType::F64 { FloatDType::F64 } else { FloatDType::F32 };
    let batch = x.dims()[0];
    let mut result = vec![batch, geometry.out_channels()];
    result.extend(output);
    if batch == 0 {
        // burn does not convolve an empty batch: a sum over it keeps the gradients connected.
        let zero = x.sum() + parameters.spline.sum().cast(dtype) * 0.0;
        return zero.reshape([1; D]).expand(Shape::from(result));
    }
    let Pixels { padded: x, rows } = Pixels::new(x.cast(compute), geometry);

    let Parameters { spline, base, scaler, bias } = parameters;
    let mut spline = spline.cast(compute);
    if let Some(scaler) = scaler {
        let [inputs, outputs] = scaler.dims();
        spline = spline * scaler.cast(compute).reshape([inputs, 1, outputs]);
    }
    let values = Pixels::channels(bases(rows, geometry.grid()), x.dims());
    let mut y = convolve(values, spline, geometry);
    if let Some(base) = base {
        let base = base.cast(compute).unsqueeze_dim(1);
        y = y + match geometry.base_branch() {
            BaseBranch::ConvOfActivation => {
                convolve(activate(x, geometry.activation()), base, geometry)
            }
            BaseBranch::ActivationOfConv => {
                activate(convolve(x, base, geometry), geometry.activation())
            }
        };
    }
    if let Some(bias) = bias {
        y = y + bias.cast(compute).reshape([1, geometry.out_channels(), 1, 1, 1]);
    }
    y.reshape(Shape::from(result)).cast(dtype)
}

/// The base branch whose function follows the sum over taps, `[batch, out_channels, ...]`, of at
/// least one image.
#[cfg(feature = "cube")]
pub(super) fn activation_of_conv<const D: usize>(
    x: Tensor<D>,
    base: Tensor<2>,
    geometry: &ConvGeometry,
    output: &[usize],
) -> Tensor<D> {
    let dtype = x.dtype();
    let mut result = vec![x.dims()[0], geometry.out_channels()];
    result.extend(output);
    let Pixels { padded, .. } = Pixels::new(x.cast(FloatDType::F32), geometry);
    let base = base.cast(FloatDType::F32).unsqueeze_dim(1);
    let y = activate(convolve(padded, base, geometry), geometry.activation());
    y.reshape(Shape::from(result)).cast(dtype)
}

/// The pixels of images, with their padding.
pub(crate) struct Pixels {
    /// `[batch, channels, depth, height, width]`.
    pub(crate) padded: Tensor<5>,
    /// `[batch·pixels, channels]`.
    pub(crate) rows: Tensor<2>,
}

impl Pixels {
    /// Of `[batch, channels, ...]`, with as many spatial axes as the geometry has.
    pub(crate) fn new<const D: usize>(x: Tensor<D>, geometry: &ConvGeometry) -> Self {
        let shape = x.dims();
        let [batch, channels] = [shape[0], shape[1]];
        let mut sizes = [1; 3];
        sizes[3 - (D - 2)..].copy_from_slice(&shape[2..]);
        let mut padded = [batch, channels, 0, 0, 0];
        for (axis, own) in geometry.axes.iter().enumerate() {
            padded[2 + axis] = sizes[axis] + 2 * own.padding;
        }
        let [pz, py, px] = geometry.axes.map(|axis| axis.padding);
        let [depth, height, width] = sizes;
        let x = x.reshape([batch, channels, depth, height, width]);
        // Padding is zeros of the input: a spline has a value there.
        let within = [0..batch, 0..channels, pz..pz + depth, py..py + height, px..px + width];
        let x = Tensor::<5>::zeros(padded, (&x.device(), x.dtype())).slice_assign(within, x);
        let pixels = padded[2..].iter().product();
        let rows = x.clone().reshape([batch, channels, pixels]).swap_dims(1, 2);
        Self { rows: rows.reshape([batch * pixels, channels]), padded: x }
    }

    /// So many numbers of each channel, `[batch·pixels, channels, numbers]`, as channels of the
    /// padded images, `[batch, channels·numbers, depth, height, width]`.
    pub(crate) fn channels(values: Tensor<3>, padded: [usize; 5]) -> Tensor<5> {
        let [batch, channels, depth, height, width] = padded;
        let (pixels, count) = (depth * height * width, values.dims()[2]);
        let values = values.reshape([batch, pixels, channels * count]).swap_dims(1, 2);
        values.reshape([batch, channels * count, depth, height, width])
    }
}

/// Convolves channels of so many numbers a pixel, `[batch, in_channels·count, ...]`, with weights
/// `[in_channels·taps, count, out_channels / groups]`.
pub(crate) fn convolve(x: Tensor<5>, weights: Tensor<3>, geometry: &ConvGeometry) -> Tensor<5> {
    let [_, count, outputs] = weights.dims();
    let (groups, taps) = (geometry.groups(), geometry.taps());
    let of_group = geometry.in_channels() / groups;
    let [kz, ky, kx] = geometry.axes.map(|axis| axis.kernel);
    let weights = weights
        .reshape([groups, of_group, taps, count, outputs])
        .permute([0, 4, 1, 3, 2])
        .reshape([groups * outputs, of_group * count, kz, ky, kx]);
    let (x, stride, dilation) = without_gaps(x, geometry);
    conv3d(x, weights, None, ConvOptions::new(stride, [0; 3], dilation, groups))
}

/// The pixels that windows visit, one window after another, with the stride and the dilation of windows
/// of these, on axes whose stride is longer than the windows: on GPUs burn 0.22.1 computes zeros for
/// the gradient of the input there (`conv_transpose3d_kernel` of burn-cubecl).
fn without_gaps(mut x: Tensor<5>, geometry: &ConvGeometry) -> (Tensor<5>, [usize; 3], [usize; 3]) {
    let mut stride = geometry.axes.map(|axis| axis.stride);
    let mut dilation = geometry.axes.map(|axis| axis.dilation);
    for (at, axis) in geometry.axes.iter().enumerate() {
        if axis.kernel * axis.dilation >= axis.stride {
            continue;
        }
        let rest = x.dims()[at + 2] - (axis.dilation * (axis.kernel - 1) + 1);
        let places: Vec<i32> = (0..=rest / axis.stride)
            .flat_map(|window| (0..axis.kernel).map(move |tap| (window, tap)))
            .map(|(window, tap)| (window * axis.stride + tap * axis.dilation) as i32)
            .collect();
        let places = Tensor::<1, Int>::from_ints(places.as_slice(), &x.device());
        x = x.select(at + 2, places);
        (stride[at], dilation[at]) = (axis.kernel, 1);
    }
    (x, stride, dilation)
}
