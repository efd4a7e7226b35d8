//! Convolution of images.

use burn::tensor::ops::ConvOptions;
use burn::tensor::{Tensor, assert_shape};

use super::plain;

/// Convolves images: a cross-correlation, as burn's and `PyTorch`'s `conv2d`.
///
/// On flex it runs our kernels, in f32: bf16 and f16 are computed in f32 and rounded once.
/// f64, padding that differs between two sides, and every other backend take burn's own
/// operation, with the same result.
///
/// # Shapes
/// - `x`: `[batch, in_channels, height, width]`
/// - `weight`: `[out_channels, in_channels / groups, kernel_height, kernel_width]`
/// - `bias`: `[out_channels]`
/// - returns: `[batch, out_channels, out_height, out_width]` with
///   `out = ⌊(in + 2·padding − dilation·(kernel − 1) − 1)/stride⌋ + 1`
///
/// # Panics
/// If the shapes do not fit each other, a stride or dilation is 0, or the kernel is larger than
/// the padded input.
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    options: ConvOptions<2>,
) -> Tensor<4> {
    let [outputs, inputs, ..] = weight.dims();
    let channels = inputs * options.groups;
    assert_shape!(x, [_, channels, _, _]);
    if let Some(bias) = &bias {
        assert_shape!(bias, [outputs]);
    }
    #[cfg(feature = "flex")]
    if let Some(shape) = fused::shape(&x, &weight, &options) {
        return fused::conv2d(x, weight, bias, shape);
    }
    plain::conv2d(x, weight, bias, options)
}

#[cfg(feature = "flex")]
mod fused {
    use burn::backend::Dispatch;
    use burn::tensor::ops::ConvOptions;
    use burn::tensor::{DType, FloatDType, Tensor};

    use crate::kernels::ConvShape;
    use crate::ops::extension::ConvBackend;
    use crate::ops::listed::runs_our_kernels;

    /// The shape, if our kernels can compute it where the tensors are.
    pub(super) fn shape(
        x: &Tensor<4>,
        weight: &Tensor<4>,
        options: &ConvOptions<2>,
    ) -> Option<ConvShape> {
        let computes = matches!(x.dtype(), DType::F32 | DType::BF16 | DType::F16)
            && x.dtype() == weight.dtype()
            && runs_our_kernels(&x.device());
        let is_even = options.padding.iter().all(|(before, after)| before == after);
        if !(computes && is_even) {
            return None;
        }
        let [batch, inputs, height, width] = x.dims();
        let [outputs, _, rows, columns] = weight.dims();
        Some(ConvShape {
            groups: options.groups,
            stride: options.stride,
            padding: options.padding.map(|(before, _)| before),
            dilation: options.dilation,
            ..ConvShape::new(batch, [inputs, outputs], [height, width], [rows, columns])
        })
    }

    pub(super) fn conv2d(
        x: Tensor<4>,
        weight: Tensor<4>,
        bias: Option<Tensor<1>>,
        shape: ConvShape,
    ) -> Tensor<4> {
        let dtype = x.dtype();
        let [x, weight] = [x, weight].map(|tensor| tensor.cast(FloatDType::F32).into_dispatch());
        let y = Tensor::<4>::from_dispatch(Dispatch::convolution(x, weight, shape));
        let y = match bias {
            Some(bias) => y + bias.cast(FloatDType::F32).reshape([1, shape.channels[1], 1, 1]),
            None => y,
        };
        y.cast(dtype)
    }
}
