//! The operations that a backend implements to run our kernels of volumes, and their gradients.

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

use super::norm_convolution::{AnyConv, NormConvSpec};
use crate::kernels::{Activation, Isa, LinearResize};
#[cfg(feature = "autodiff")]
use crate::ops::extension::ConvGradients;
use crate::ops::extension::{ConvSpec, Operand, PoolSpec};

/// The settings of a group normalization.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupNormSpec {
    pub(crate) groups: usize,
    pub(crate) epsilon: f64,
    pub(crate) activation: Activation,
    pub(crate) isa: Isa,
}

/// What a change of size is.
#[derive(Debug, Clone)]
pub(crate) struct ResizeSpec {
    pub(crate) geometry: Arc<LinearResize>,
    /// The tensor's first two axes.
    pub(crate) planes: [usize; 2],
    pub(crate) isa: Isa,
}

/// Our operations of volumes, on f32 tensors.
#[backend_extension(Flex: cfg(feature = "flex"), Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait VolumeBackend: Backend {
    /// A convolution. Tensors without a depth are volumes of one slice, here, in the transposed
    /// convolution and in the gradient of weights.
    fn convolution_3d(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] bias: Operand<Self>,
        spec: ConvSpec<3>,
    ) -> FloatTensor<Self>;

    /// A transposed convolution: the input's gradient of the convolution that `spec` is, with a bias
    /// for each of its inputs.
    fn transposed_convolution_3d(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] bias: Operand<Self>,
        spec: ConvSpec<3>,
    ) -> FloatTensor<Self>;

    /// The same, whose result is computed again in the backward pass instead of being kept.
    fn recomputed_transposed_convolution_3d(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] bias: Operand<Self>,
        spec: ConvSpec<3>,
    ) -> FloatTensor<Self>;

    /// A group normalization, with a residual that is added before the activation: result, mean and
    /// variance.
    fn group_normalization(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        #[extension_type] residual: Operand<Self>,
        spec: GroupNormSpec,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// The convolution of a group normalization's result, which no gradient keeps.
    fn normalized_convolution(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] bias: Operand<Self>,
        spec: NormConvSpec,
    ) -> FloatTensor<Self>;

    /// The group normalization of a convolution's result, which no gradient keeps.
    fn convolution_normalized(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        spec: NormConvSpec,
    ) -> FloatTensor<Self>;

    /// The convolution of the channels of two tensors, which no gradient keeps together.
    fn joined_convolution(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        w: FloatTensor<Self>,
        spec: AnyConv,
    ) -> FloatTensor<Self>;

    /// A pooling.
    fn pooling_3d(x: FloatTensor<Self>, spec: PoolSpec<3>) -> FloatTensor<Self>;

    /// A change of size.
    fn resizing(x: FloatTensor<Self>, spec: ResizeSpec) -> FloatTensor<Self>;
}

/// The gradients of our operations of volumes, on a backend below autodiff.
#[cfg(feature = "autodiff")]
pub(crate) trait VolumeGradients: VolumeBackend + ConvGradients {
    /// The gradient of a convolution's weights.
    fn weight_gradient_3d(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: ConvSpec<3>,
    ) -> FloatTensor<Self>;

    /// The gradients of a group normalization without a residual, whose parameters are factors and
    /// summands: of input, factors and summands.
    fn group_normalization_gradient(
        x: FloatTensor<Self>,
        parameters: [FloatTensor<Self>; 2],
        statistics: [FloatTensor<Self>; 2],
        dy: FloatTensor<Self>,
        spec: GroupNormSpec,
    ) -> [FloatTensor<Self>; 3];

    /// The gradient of a pooling.
    fn pooling_3d_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        spec: PoolSpec<3>,
    ) -> FloatTensor<Self>;

    /// The gradient of a change of size.
    fn resizing_gradient(dy: FloatTensor<Self>, spec: ResizeSpec) -> FloatTensor<Self>;
}
