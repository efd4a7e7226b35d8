//! The forward passes on a backend, composed of the separate operations.

use burn::backend::tensor::FloatTensor;

use crate::ops::extension::{ConvBackend, ConvSpec, Operand};
#[cfg(feature = "autodiff")]
use crate::ops::volume::extension::VolumeGradients;
use crate::ops::volume::extension::{GroupNormSpec, VolumeBackend};

/// A convolution of images or of volumes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyConv {
    Images(ConvSpec<2>),
    Volumes(ConvSpec<3>),
}

/// A convolution and the normalization before or after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormConvSpec {
    pub(crate) norm: GroupNormSpec,
    pub(crate) conv: AnyConv,
}

impl AnyConv {
    pub(crate) fn forward<B: VolumeBackend + ConvBackend>(
        self,
        x: FloatTensor<B>,
        w: FloatTensor<B>,
        bias: Operand<B>,
    ) -> FloatTensor<B> {
        match self {
            Self::Images(spec) => B::convolution(x, w, bias, spec),
            Self::Volumes(spec) => B::convolution_3d(x, w, bias, spec),
        }
    }

    /// The same of fewer channels.
    #[cfg(feature = "autodiff")]
    pub(super) fn of_channels(mut self, inputs: usize) -> Self {
        match &mut self {
            Self::Images(spec) => spec.shape.channels[0] = inputs,
            Self::Volumes(spec) => spec.shape.channels[0] = inputs,
        }
        self
    }

    #[cfg(feature = "autodiff")]
    pub(super) fn input_gradient<B: VolumeGradients>(
        self,
        dy: FloatTensor<B>,
        w: FloatTensor<B>,
    ) -> FloatTensor<B> {
        match self {
            Self::Images(spec) => B::convolution_input_gradient(dy, w, spec),
            Self::Volumes(spec) => B::transposed_convolution_3d(dy, w, Operand::Absent, spec),
        }
    }

    #[cfg(feature = "autodiff")]
    pub(super) fn weight_gradient<B: VolumeGradients>(
        self,
        x: FloatTensor<B>,
        dy: FloatTensor<B>,
    ) -> FloatTensor<B> {
        match self {
            Self::Images(spec) => B::convolution_weight_gradient(x, dy, spec),
            Self::Volumes(spec) => B::weight_gradient_3d(x, dy, spec),
        }
    }

    pub(crate) const fn isa(self) -> crate::kernels::Isa {
        match self {
            Self::Images(spec) => spec.isa,
            Self::Volumes(spec) => spec.isa,
        }
    }
}

/// The convolution of a normalized tensor.
pub(in crate::ops::volume) fn normalized_convolution<B: VolumeBackend + ConvBackend>(
    [x, gamma, beta, w]: [FloatTensor<B>; 4],
    bias: Operand<B>,
    spec: NormConvSpec,
) -> (FloatTensor<B>, [FloatTensor<B>; 2]) {
    let (x, mean, variance) = B::group_normalization(x, gamma, beta, Operand::Absent, spec.norm);
    (spec.conv.forward::<B>(x, w, bias), [mean, variance])
}

/// The normalization of a convolved tensor.
pub(in crate::ops::volume) fn convolution_normalized<B: VolumeBackend + ConvBackend>(
    [x, w, gamma, beta]: [FloatTensor<B>; 4],
    spec: NormConvSpec,
) -> (FloatTensor<B>, [FloatTensor<B>; 2]) {
    let x = spec.conv.forward::<B>(x, w, Operand::Absent);
    let (y, mean, variance) = B::group_normalization(x, gamma, beta, Operand::Absent, spec.norm);
    (y, [mean, variance])
}
