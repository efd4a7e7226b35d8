//! Transposed convolutions of images and volumes.

use burn::tensor::ops::ConvTransposeOptions;
use burn::tensor::{Tensor, assert_shape, module};
use updraft_simd::mark_plain;

#[cfg(feature = "cube")]
use super::cube_stride::transposed;
#[cfg(feature = "cube")]
use crate::ops::listed::is_on_gpu;
use crate::ops::path::LayerPath;

/// How a transposed convolution is computed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TransposedPath {
    pub(crate) forced: Option<LayerPath>,
    /// Whether the backward pass of our kernels computes the result again instead of keeping it.
    pub(crate) recomputed: bool,
}

/// Convolves volumes transposed, the input's gradient of a convolution: burn's and `PyTorch`'s
/// `conv_transpose3d`.
///
/// On flex it runs our kernels, in f32: bf16 and f16 are computed in f32 and rounded once. f64, an
/// output's padding that is not below the stride, and every other backend use burn's own operation,
/// with the same result; on GPUs, with the feature of their backend, windows that are shorter than
/// their stride are convolved without gaps, between which zeros are inserted, because burn 0.22.1
/// computes only zeros there.
///
/// # Shapes
/// - `x`: `[batch, in_channels, depth, height, width]`
/// - `weight`: `[in_channels, out_channels / groups, kernel_depth, kernel_height, kernel_width]`
/// - `bias`: `[out_channels]`
/// - returns: `[batch, out_channels, out_depth, out_height, out_width]` with
///   `out = (in − 1)·stride − 2·padding + dilation·(kernel − 1) + padding_out + 1`
///
/// # Panics
/// If the shapes do not match, or there is no output.
pub fn conv_transpose3d(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<3>,
) -> Tensor<5> {
    transpose_convolve_3d(x, weight, bias, options, TransposedPath::default())
}

pub(crate) fn transpose_convolve_3d(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<3>,
    path: TransposedPath,
) -> Tensor<5> {
    let plain = |x: Tensor<5>, weight, bias| {
        #[cfg(feature = "cube")]
        if is_on_gpu(&x.device()) {
            return transposed(x, weight, bias, options.clone());
        }
        module::conv_transpose3d(x, weight, bias, options.clone())
    };
    transpose_convolve(x, weight, bias, &options, path, plain)
}

/// The same of images, as burn's and `PyTorch`'s `conv_transpose2d`.
///
/// # Shapes
/// - `x`: `[batch, in_channels, height, width]`
/// - `weight`: `[in_channels, out_channels / groups, kernel_height, kernel_width]`
/// - `bias`: `[out_channels]`
/// - returns: `[batch, out_channels, out_height, out_width]`, as [`conv_transpose3d`] has it
///
/// # Panics
/// As [`conv_transpose3d`].
pub fn conv_transpose2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<2>,
) -> Tensor<4> {
    transpose_convolve_2d(x, weight, bias, options, TransposedPath::default())
}

/// An image is a volume of one slice.
pub(crate) fn transpose_convolve_2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<2>,
    path: TransposedPath,
) -> Tensor<4> {
    let ConvTransposeOptions { stride, padding, padding_out, dilation, groups } = options.clone();
    let volume = ConvTransposeOptions {
        stride: [1, stride[0], stride[1]],
        padding: [0, padding[0], padding[1]],
        padding_out: [0, padding_out[0], padding_out[1]],
        dilation: [1, dilation[0], dilation[1]],
        groups,
    };
    let plain = |x, weight, bias| module::conv_transpose2d(x, weight, bias, options);
    transpose_convolve(x, weight, bias, &volume, path, plain)
}

/// By our kernels where they can, else by `plain`.
fn transpose_convolve<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<D>,
    bias: Option<Tensor<1>>,
    options: &ConvTransposeOptions<3>,
    path: TransposedPath,
    plain: impl FnOnce(Tensor<D>, Tensor<D>, Option<Tensor<1>>) -> Tensor<D>,
) -> Tensor<D> {
    let (inputs, outputs) = (weight.dims()[0], weight.dims()[1]);
    assert_eq!(x.dims()[1], inputs, "conv_transpose: channels of the input and of the weights");
    if let Some(bias) = &bias {
        let channels = outputs * options.groups;
        assert_shape!(bias, [channels]);
    }
    // Otherwise the output has positions that no input of the convolution corresponds to.
    let fits = options.padding_out.iter().zip(options.stride).all(|(out, stride)| *out < stride);
    let TransposedPath { forced, recomputed } = path;
    match LayerPath::picked(forced, &x.device(), x.dtype()) {
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) if fits && x.dtype() == weight.dtype() => {
            fused::transposed(x, weight, bias, options, (isa, recomputed))
        }
        LayerPath::Kernels(_) | LayerPath::Cube | LayerPath::Plain => {
            let required = "the kernels need padding_out below the stride, and one dtype";
            assert!(!matches!(forced, Some(LayerPath::Kernels(_))), "{required}");
            let _ = (fits, recomputed);
            mark_plain();
            plain(x, weight, bias)
        }
    }
}

#[cfg(feature = "flex")]
mod fused {
    use burn::backend::Dispatch;
    use burn::tensor::ops::ConvTransposeOptions;
    use burn::tensor::{FloatDType, Tensor};

    use crate::kernels::{Activation, Conv3dShape, Isa};
    use crate::ops::extension::{ConvSpec, Operand};
    use crate::ops::observe;
    use crate::ops::volume::extension::VolumeBackend;

    /// Of volumes, or of images as volumes of one slice.
    pub(super) fn transposed<const D: usize>(
        x: Tensor<D>,
        weight: Tensor<D>,
        bias: Option<Tensor<1>>,
        options: &ConvTransposeOptions<3>,
        (isa, recomputed): (Isa, bool),
    ) -> Tensor<D> {
        let ConvTransposeOptions { stride, padding, padding_out, dilation, groups } = *options;
        let ([batch, inputs], sides) = split(x.dims());
        let ([_, outputs], kernel) = split(weight.dims());
        let output = [0, 1, 2].map(|axis: usize| {
            let all = (sides[axis] - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1);
            let all = all + padding_out[axis] + 1;
            assert!(all > 2 * padding[axis], "conv_transpose: the padding leaves no output");
            all - 2 * padding[axis]
        });
        // The convolution whose input's gradient this is.
        let shape = Conv3dShape {
            groups,
            stride,
            padding,
            dilation,
            ..Conv3dShape::new(batch, [outputs * groups, inputs], output, kernel)
        };
        observe::note_transposed(shape, D - 2);
        let dtype = x.dtype();
        let [x, weight] = [x, weight].map(|tensor| tensor.cast(FloatDType::F32).into_dispatch());
        let bias = Operand::from(bias.map(|bias| bias.cast(FloatDType::F32).into_dispatch()));
        let spec = ConvSpec::new(shape, Activation::Identity, isa);
        let y = match recomputed {
            true => Dispatch::recomputed_transposed_convolution_3d(x, weight, bias, spec),
            false => Dispatch::transposed_convolution_3d(x, weight, bias, spec),
        };
        Tensor::<D>::from_dispatch(y).cast(dtype)
    }

    /// The first two sizes, and those of a volume.
    fn split<const D: usize>(dims: [usize; D]) -> ([usize; 2], [usize; 3]) {
        let depth = if D == 5 { dims[2] } else { 1 };
        ([dims[0], dims[1]], [depth, dims[D - 2], dims[D - 1]])
    }
}
