//! Convolutions next to normalizations, and of two tensors, whose backward passes compute again what
//! lies between.
//!
//! Separate operations keep the input and the result of every normalization for the backward pass,
//! although the result takes one pass over memory to compute again. These operations keep half of
//! that. Their results are those of the separate operations, bit for bit; gradients of convolutions
//! of two tensors may be rounded differently.

mod composed;
#[cfg(feature = "autodiff")]
mod gradients;

use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor};

pub(crate) use self::composed::AnyConv;
pub(super) use self::composed::{NormConvSpec, convolution_normalized, normalized_convolution};
#[cfg(feature = "autodiff")]
pub(super) use self::gradients::{ConvolutionNormalized, JoinedConvolution, NormalizedConvolution};
use super::extension::{GroupNormSpec, VolumeBackend};
use super::group_norm::GroupNorm;
use crate::kernels::{Activation, ConvShape, Isa};
use crate::ops::extension::{ConvSpec, Operand};
use crate::ops::observe;
use crate::ops::path::LayerPath;

/// The vectors of kernels that record a gradient in f32; `None` where separate operations do it.
pub(crate) fn recording<const D: usize>(
    forced: Option<LayerPath>,
    x: &Tensor<D>,
    w: &Tensor<D>,
) -> Option<Isa> {
    if !x.device().is_autodiff() || [x.dtype(), w.dtype()] != [DType::F32; 2] {
        return None;
    }
    match LayerPath::picked(forced, &x.device(), DType::F32) {
        LayerPath::Kernels(isa) => Some(isa),
        LayerPath::Plain | LayerPath::Cube => None,
    }
}

impl AnyConv {
    /// A convolution of images.
    pub(crate) fn images(shape: ConvShape<2>, isa: Isa) -> Self {
        Self::Images(ConvSpec::new(shape, Activation::Identity, isa))
    }

    /// A convolution of volumes.
    pub(crate) fn volumes(shape: ConvShape<3>, isa: Isa) -> Self {
        Self::Volumes(ConvSpec::new(shape, Activation::Identity, isa))
    }

    /// Records it as a convolution of the layer that runs.
    fn note(self) {
        match self {
            Self::Images(spec) => observe::note(spec.shape),
            Self::Volumes(spec) => observe::note_3d(spec.shape),
        }
    }
}

/// The convolution of a normalized tensor.
pub(crate) fn convolve_normalized<const D: usize>(
    x: Tensor<D>,
    norm: GroupNorm,
    weight: Tensor<D>,
    bias: Option<Tensor<1>>,
    conv: AnyConv,
) -> Tensor<D> {
    conv.note();
    let spec = NormConvSpec { norm: norm.spec(conv.isa()), conv };
    let [gamma, beta] = norm.parameters.map(|vector| vector.into_dispatch());
    let bias = Operand::from(bias.map(Tensor::into_dispatch));
    let (x, w) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(Dispatch::normalized_convolution(x, gamma, beta, w, bias, spec))
}

/// The normalization of a convolved tensor.
pub(crate) fn normalize_convolved<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<D>,
    norm: GroupNorm,
    conv: AnyConv,
) -> Tensor<D> {
    conv.note();
    let spec = NormConvSpec { norm: norm.spec(conv.isa()), conv };
    let [gamma, beta] = norm.parameters.map(|vector| vector.into_dispatch());
    let (x, w) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(Dispatch::convolution_normalized(x, w, gamma, beta, spec))
}

/// The convolution of the channels of two tensors.
pub(crate) fn convolve_joined<const D: usize>(
    [a, b]: [Tensor<D>; 2],
    weight: Tensor<D>,
    conv: AnyConv,
) -> Tensor<D> {
    conv.note();
    let [a, b, w] = [a, b, weight].map(|tensor| tensor.into_dispatch());
    Tensor::from_dispatch(Dispatch::joined_convolution(a, b, w, conv))
}

impl GroupNorm {
    const fn spec(&self, isa: Isa) -> GroupNormSpec {
        let Self { groups, epsilon, activation, .. } = *self;
        GroupNormSpec { groups, epsilon, activation, isa }
    }
}
