//! What a backend has to offer to run our kernels.
#![allow(
    clippy::too_many_arguments,
    reason = "a gradient needs what the forward pass knew; burn's macro copies the signature"
)]

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};

use crate::kernels::{Activation, ConvShape};

/// Our operations, on contiguous f32 tensors.
#[backend_extension(Flex: cfg(feature = "flex"), Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait ConvBackend: Backend {
    /// A convolution without bias.
    fn convolution(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        shape: ConvShape,
    ) -> FloatTensor<Self>;

    /// The input's gradient.
    fn convolution_input_gradient(
        dy: FloatTensor<Self>,
        w: FloatTensor<Self>,
        shape: ConvShape,
    ) -> FloatTensor<Self>;

    /// The weights' gradient.
    fn convolution_weight_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        shape: ConvShape,
    ) -> FloatTensor<Self>;

    /// A batch normalization: result, mean and variance.
    fn normalization(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
        activation: Activation,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Its gradients: of input, factors and summands.
    fn normalization_gradient(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        epsilon: f64,
        activation: Activation,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}
