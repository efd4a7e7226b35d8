//! Convolution of volumes.

use burn::tensor::ops::ConvOptions;
use burn::tensor::{Tensor, assert_shape, module};
use updraft_simd::mark_plain;

#[cfg(feature = "cube")]
use super::cube_stride::visited;
use crate::kernels::Activation;
use crate::ops::activation::activate_by;
#[cfg(feature = "cube")]
use crate::ops::listed::is_on_gpu;
use crate::ops::path::LayerPath;

/// Convolves volumes: a cross-correlation, as burn's and `PyTorch`'s `conv3d`.
///
/// On flex it runs our kernels, in f32: bf16 and f16 are computed in f32 and rounded once. f64 and
/// every other backend use burn's own operation, with the same result; on GPUs, with the feature of
/// their backend, windows that are shorter than their stride get the voxels that they visit, because
/// burn 0.22.1 computes zeros for the gradient of their input.
///
/// # Shapes
/// - `x`: `[batch, in_channels, depth, height, width]`
/// - `weight`: `[out_channels, in_channels / groups, kernel_depth, kernel_height, kernel_width]`
/// - `bias`: `[out_channels]`
/// - returns: `[batch, out_channels, out_depth, out_height, out_width]` with
///   `out = ⌊(in + 2·padding − dilation·(kernel − 1) − 1)/stride⌋ + 1`
///
/// # Panics
/// If the shapes do not match, a stride or dilation is 0, padding differs between two sides, or the
/// kernel is larger than the padded input.
pub fn conv3d(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvOptions<3>,
) -> Tensor<5> {
    convolve_3d(x, weight, bias, options, Activation::Identity, None)
}

pub(crate) fn convolve_3d(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvOptions<3>,
    activation: Activation,
    forced: Option<LayerPath>,
) -> Tensor<5> {
    let [outputs, inputs, ..] = weight.dims();
    let channels = inputs * options.groups;
    assert_shape!(x, [_, channels, _, _, _]);
    if let Some(bias) = &bias {
        assert_shape!(bias, [outputs]);
    }
    let is_even = options.padding.iter().all(|(before, after)| before == after);
    assert!(is_even, "conv3d: padding is alike on both sides of an axis");
    match LayerPath::picked(forced, &x.device(), x.dtype()) {
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) if x.dtype() == weight.dtype() => {
            fused::conv3d(x, weight, bias, &options, activation, isa)
        }
        LayerPath::Kernels(_) | LayerPath::Cube | LayerPath::Plain => {
            assert!(!matches!(forced, Some(LayerPath::Kernels(_))), "the kernels need one dtype");
            mark_plain();
            #[cfg(feature = "cube")]
            let (x, options) = match is_on_gpu(&x.device()) {
                true => {
                    let [_, _, kernel @ ..] = weight.dims();
                    visited(x, kernel, options)
                }
                false => (x, options),
            };
            activate_by(module::conv3d(x, weight, bias, options), activation, forced)
        }
    }
}

#[cfg(feature = "flex")]
mod fused {
    use burn::backend::Dispatch;
    use burn::tensor::ops::ConvOptions;
    use burn::tensor::{FloatDType, Tensor};

    use crate::kernels::{Activation, Conv3dShape, Isa};
    use crate::ops::activation::activate_by;
    use crate::ops::extension::{ConvSpec, Operand};
    use crate::ops::observe;
    use crate::ops::path::LayerPath;
    use crate::ops::volume::extension::VolumeBackend;

    pub(super) fn conv3d(
        x: Tensor<5>,
        weight: Tensor<5>,
        bias: Option<Tensor<1>>,
        options: &ConvOptions<3>,
        activation: Activation,
        isa: Isa,
    ) -> Tensor<5> {
        let [batch, inputs, input @ ..] = x.dims();
        let [outputs, _, kernel @ ..] = weight.dims();
        let shape = Conv3dShape {
            groups: options.groups,
            stride: options.stride,
            padding: options.padding.map(|(before, _)| before),
            dilation: options.dilation,
            ..Conv3dShape::new(batch, [inputs, outputs], input, kernel)
        };
        observe::note_3d(shape);
        // A gradient needs what is activated, so that on a graph it is an operation of its own.
        let (fused, after) = match x.device().is_autodiff() {
            true => (Activation::Identity, activation),
            false => (activation, Activation::Identity),
        };
        let dtype = x.dtype();
        let [x, weight] = [x, weight].map(|tensor| tensor.cast(FloatDType::F32).into_dispatch());
        let bias = Operand::from(bias.map(|bias| bias.cast(FloatDType::F32).into_dispatch()));
        let spec = ConvSpec::new(shape, fused, isa);
        let y = Tensor::<5>::from_dispatch(Dispatch::convolution_3d(x, weight, bias, spec));
        activate_by(y, after, Some(LayerPath::Kernels(isa))).cast(dtype)
    }
}
