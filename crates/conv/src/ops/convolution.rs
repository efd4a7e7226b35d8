//! Convolution of images.

use burn::tensor::ops::ConvOptions;
use burn::tensor::{Tensor, assert_shape};

use super::activation::activate_by;
use super::path::LayerPath;
use super::plain;
use crate::kernels::Activation;

/// Convolves images: a cross-correlation, as burn's and `PyTorch`'s `conv2d`.
///
/// On flex it runs our kernels, in f32: bf16 and f16 are computed in f32 and rounded once. f64,
/// asymmetric padding, and every other backend use burn's own operation, with the same result.
///
/// Within a scope of [`Products::Bf16`](updraft_simd::Products) our kernels round factors to bf16 in
/// both passes, with sums in f32, in layers where a unit of the processor makes that faster.
///
/// # Shapes
/// - `x`: `[batch, in_channels, height, width]`
/// - `weight`: `[out_channels, in_channels / groups, kernel_height, kernel_width]`
/// - `bias`: `[out_channels]`
/// - returns: `[batch, out_channels, out_height, out_width]` with
///   `out = ⌊(in + 2·padding − dilation·(kernel − 1) − 1)/stride⌋ + 1`
///
/// # Panics
/// If the shapes do not match, a stride or dilation is 0, or the kernel is larger than the padded
/// input.
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    options: ConvOptions<2>,
) -> Tensor<4> {
    convolve(x, weight, bias, Convolving { options, activation: Activation::Identity, path: None })
}

/// How images are convolved.
#[derive(Debug, Clone)]
pub(crate) struct Convolving {
    pub(crate) options: ConvOptions<2>,
    pub(crate) activation: Activation,
    pub(crate) path: Option<LayerPath>,
}

pub(crate) fn convolve(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    by: Convolving,
) -> Tensor<4> {
    let Convolving { options, activation, path: forced } = by;
    let [outputs, inputs, ..] = weight.dims();
    let channels = inputs * options.groups;
    assert_shape!(x, [_, channels, _, _]);
    if let Some(bias) = &bias {
        assert_shape!(bias, [outputs]);
    }
    let is_even = options.padding.iter().all(|(before, after)| before == after);
    match LayerPath::picked(forced, &x.device(), x.dtype()) {
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) if is_even && x.dtype() == weight.dtype() => {
            fused::conv2d(x, weight, bias, &options, activation, isa)
        }
        LayerPath::Kernels(_) | LayerPath::Cube | LayerPath::Plain => {
            let context = "the kernels need padding that is alike on both sides, and one dtype";
            assert!(!matches!(forced, Some(LayerPath::Kernels(_))), "{context}: {options:?}");
            let _ = is_even;
            activate_by(plain::conv2d(x, weight, bias, options), activation, forced)
        }
    }
}

#[cfg(feature = "flex")]
pub(super) mod fused {
    use burn::backend::Dispatch;
    use burn::tensor::ops::ConvOptions;
    use burn::tensor::{FloatDType, Tensor};

    use crate::kernels::{Activation, ConvShape, Isa};
    use crate::ops::activation::activate_by;
    use crate::ops::extension::{ConvBackend, ConvSpec, Operand};
    use crate::ops::observe;
    use crate::ops::path::LayerPath;

    /// What the kernels convolve, for padding that is alike on both sides.
    pub(in crate::ops) fn shape_of(
        x: &Tensor<4>,
        weight: &Tensor<4>,
        options: &ConvOptions<2>,
    ) -> ConvShape {
        let [batch, inputs, height, width] = x.dims();
        let [outputs, _, rows, columns] = weight.dims();
        ConvShape {
            groups: options.groups,
            stride: options.stride,
            padding: options.padding.map(|(before, _)| before),
            dilation: options.dilation,
            ..ConvShape::new(batch, [inputs, outputs], [height, width], [rows, columns])
        }
    }

    pub(super) fn conv2d(
        x: Tensor<4>,
        weight: Tensor<4>,
        bias: Option<Tensor<1>>,
        options: &ConvOptions<2>,
        activation: Activation,
        isa: Isa,
    ) -> Tensor<4> {
        let shape = shape_of(&x, &weight, options);
        observe::note(shape);
        // A gradient needs what is activated, so that on a graph it is an operation of its own.
        let (fused, after) = match x.device().is_autodiff() {
            true => (Activation::Identity, activation),
            false => (activation, Activation::Identity),
        };
        let dtype = x.dtype();
        let [x, weight] = [x, weight].map(|tensor| tensor.cast(FloatDType::F32).into_dispatch());
        let bias = bias.map(|bias| bias.cast(FloatDType::F32).into_dispatch());
        let spec = ConvSpec::new(shape, fused, isa);
        let y =
            Tensor::<4>::from_dispatch(Dispatch::convolution(x, weight, Operand::from(bias), spec));
        activate_by(y, after, Some(LayerPath::Kernels(isa))).cast(dtype)
    }
}
