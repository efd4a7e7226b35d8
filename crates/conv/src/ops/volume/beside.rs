//! The convolutions of `recomputed.rs` on burn's tensors.

use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor};

use super::extension::{GroupNormSpec, VolumeBackend};
pub(crate) use super::recomputed::AnyConv;
use super::recomputed::NormConvSpec;
use crate::kernels::{Activation, ConvShape, Isa};
use crate::ops::extension::{ConvSpec, Operand};
use crate::ops::observe;
use crate::ops::path::LayerPath;

/// A convolution's settings, for tensors of rank 4 or 5.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings<const N: usize> {
    pub(crate) stride: [usize; N],
    pub(crate) padding: [usize; N],
    pub(crate) dilation: [usize; N],
}

/// γ and β of a group normalization with its settings.
#[derive(Debug, Clone)]
pub(crate) struct GroupNorm {
    pub(crate) parameters: [Tensor<1>; 2],
    pub(crate) groups: usize,
    pub(crate) epsilon: f64,
    pub(crate) activation: Activation,
}

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
        LayerPath::Plain => None,
    }
}

/// The convolution of an input of these sides, with one group.
pub(crate) fn of_images(
    inputs: [usize; 4],
    weight: &Tensor<4>,
    by: Settings<2>,
    isa: Isa,
) -> AnyConv {
    let [batch, inputs, input @ ..] = inputs;
    let [outputs, _, kernel @ ..] = weight.dims();
    let shape = with(ConvShape::new(batch, [inputs, outputs], input, kernel), by);
    observe::note(shape);
    AnyConv::Images(ConvSpec { shape, activation: Activation::Identity, isa })
}

/// The same of volumes.
pub(crate) fn of_volumes(
    inputs: [usize; 5],
    weight: &Tensor<5>,
    by: Settings<3>,
    isa: Isa,
) -> AnyConv {
    let [batch, inputs, input @ ..] = inputs;
    let [outputs, _, kernel @ ..] = weight.dims();
    let shape = with(ConvShape::new(batch, [inputs, outputs], input, kernel), by);
    observe::note_3d(shape);
    AnyConv::Volumes(ConvSpec { shape, activation: Activation::Identity, isa })
}

const fn with<const N: usize>(shape: ConvShape<N>, by: Settings<N>) -> ConvShape<N> {
    ConvShape { stride: by.stride, padding: by.padding, dilation: by.dilation, ..shape }
}

/// The convolution of a normalized tensor.
pub(crate) fn convolve_normalized<const D: usize>(
    x: Tensor<D>,
    norm: GroupNorm,
    weight: Tensor<D>,
    bias: Option<Tensor<1>>,
    conv: AnyConv,
) -> Tensor<D> {
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
    let [a, b, w] = [a, b, weight].map(|tensor| tensor.into_dispatch());
    Tensor::from_dispatch(Dispatch::joined_convolution(a, b, w, conv))
}

impl GroupNorm {
    const fn spec(&self, isa: Isa) -> GroupNormSpec {
        let Self { groups, epsilon, activation, .. } = *self;
        GroupNormSpec { groups, epsilon, activation, isa }
    }
}
