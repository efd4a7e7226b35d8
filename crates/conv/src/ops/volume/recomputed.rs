//! Convolutions next to normalizations, and of two tensors, whose gradients compute again what lies
//! between.
//!
//! A graph keeps what its gradients need: separate operations keep the input and the result of every
//! normalization, although the result takes one pass over memory to compute again. These operations
//! keep half of that. Their results are those of the separate operations, bit for bit; gradients of
//! convolutions of two tensors may be rounded otherwise.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Slice;

#[cfg(feature = "autodiff")]
use super::extension::VolumeGradients;
use super::extension::{GroupNormSpec, VolumeBackend};
use crate::ops::extension::{ConvBackend, ConvSpec, Operand};

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
    fn of_channels(mut self, inputs: usize) -> Self {
        match &mut self {
            Self::Images(spec) => spec.shape.channels[0] = inputs,
            Self::Volumes(spec) => spec.shape.channels[0] = inputs,
        }
        self
    }

    #[cfg(feature = "autodiff")]
    fn input_gradient<B: VolumeGradients>(
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
    fn weight_gradient<B: VolumeGradients>(
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

/// A range of the second axis.
fn channels<B: Backend>(tensor: FloatTensor<B>, range: std::ops::Range<usize>) -> FloatTensor<B> {
    let shape = tensor.shape();
    let mut slices: Vec<Slice> = shape.iter().map(|&side| Slice::from(0..side)).collect();
    slices[1] = Slice::from(range);
    B::float_slice(tensor, &slices)
}

/// The convolution of a normalized tensor.
pub(super) fn normalized_convolution<B: VolumeBackend + ConvBackend>(
    [x, gamma, beta, w]: [FloatTensor<B>; 4],
    bias: Operand<B>,
    spec: NormConvSpec,
) -> (FloatTensor<B>, [FloatTensor<B>; 2]) {
    let (x, mean, variance) = B::group_normalization(x, gamma, beta, spec.norm);
    (spec.conv.forward::<B>(x, w, bias), [mean, variance])
}

/// The normalization of a convolved tensor.
pub(super) fn convolution_normalized<B: VolumeBackend + ConvBackend>(
    [x, w, gamma, beta]: [FloatTensor<B>; 4],
    spec: NormConvSpec,
) -> (FloatTensor<B>, [FloatTensor<B>; 2]) {
    let x = spec.conv.forward::<B>(x, w, Operand::Absent);
    let (y, mean, variance) = B::group_normalization(x, gamma, beta, spec.norm);
    (y, [mean, variance])
}

/// The convolution of the channels of two tensors.
pub(super) fn joined_convolution<B: VolumeBackend + ConvBackend>(
    [a, b, w]: [FloatTensor<B>; 3],
    spec: AnyConv,
) -> FloatTensor<B> {
    spec.forward::<B>(B::float_cat(vec![a, b], 1), w, Operand::Absent)
}

/// The gradients of [`normalized_convolution`] and the others, by which of them are wanted.
#[cfg(feature = "autodiff")]
pub(super) mod gradients {
    use burn::backend::TensorMetadata as _;
    use burn::backend::autodiff::NodeId;
    use burn::backend::autodiff::checkpoint::base::Checkpointer;
    use burn::backend::autodiff::grads::Gradients;
    use burn::backend::autodiff::ops::{Backward, Ops};
    use burn::backend::tensor::FloatTensor;

    use super::super::extension::VolumeGradients;
    use super::{AnyConv, NormConvSpec, channels};
    use crate::ops::autodiff::{register, with_optional};
    use crate::ops::extension::Operand;

    /// Of input, factors, summands and weights, and of a bias if there are five tensors.
    #[derive(Debug)]
    pub(in crate::ops::volume) struct NormalizedConvolution;

    impl<B: VolumeGradients, const N: usize> Backward<B, N> for NormalizedConvolution {
        type State = ([NodeId; N], [FloatTensor<B>; 2], NormConvSpec);

        fn backward(
            self,
            ops: Ops<Self::State, N>,
            gradients: &mut Gradients,
            checkpointer: &mut Checkpointer,
        ) {
            let dy = gradients.consume::<B>(&ops.node);
            let (nodes, statistics, NormConvSpec { norm, conv }) = ops.state;
            let tensors: [FloatTensor<B>; N] =
                nodes.map(|node| checkpointer.retrieve_node_output(node));
            let ([x, gamma, beta, w], _) = with_optional(tensors);
            let parents = ops.parents.map(|parent| parent.map(|node| node.id));
            let ([own @ .., of_weights], of_bias) = with_optional::<_, N, 4>(parents);
            if let Some(node) = of_bias.flatten() {
                gradients.register::<B>(node, B::channel_sums(dy.clone(), conv.isa()));
            }
            if let Some(node) = of_weights {
                let (read, ..) =
                    B::group_normalization(x.clone(), gamma.clone(), beta.clone(), norm);
                gradients.register::<B>(node, conv.weight_gradient::<B>(read, dy.clone()));
            }
            if own.iter().any(Option::is_some) {
                let dread = conv.input_gradient::<B>(dy, w);
                let all =
                    B::group_normalization_gradient(x, [gamma, beta], statistics, dread, norm);
                register::<B, 3>(gradients, own, all);
            }
        }
    }

    /// Of input, weights, factors and summands.
    #[derive(Debug)]
    pub(in crate::ops::volume) struct ConvolutionNormalized;

    impl<B: VolumeGradients> Backward<B, 4> for ConvolutionNormalized {
        type State = ([NodeId; 4], [FloatTensor<B>; 2], NormConvSpec);

        fn backward(
            self,
            ops: Ops<Self::State, 4>,
            gradients: &mut Gradients,
            checkpointer: &mut Checkpointer,
        ) {
            let dy = gradients.consume::<B>(&ops.node);
            let (nodes, statistics, NormConvSpec { norm, conv }) = ops.state;
            let [x, w, gamma, beta]: [FloatTensor<B>; 4] =
                nodes.map(|node| checkpointer.retrieve_node_output(node));
            let [of_x, of_w, of_gamma, of_beta] =
                ops.parents.map(|parent| parent.map(|node| node.id));
            let y = conv.forward::<B>(x.clone(), w.clone(), Operand::Absent);
            let [dy, dgamma, dbeta] =
                B::group_normalization_gradient(y, [gamma, beta], statistics, dy, norm);
            register::<B, 2>(gradients, [of_gamma, of_beta], [dgamma, dbeta]);
            if let Some(node) = of_w {
                gradients.register::<B>(node, conv.weight_gradient::<B>(x, dy.clone()));
            }
            if let Some(node) = of_x {
                gradients.register::<B>(node, conv.input_gradient::<B>(dy, w));
            }
        }
    }

    /// Of two inputs and weights.
    #[derive(Debug)]
    pub(in crate::ops::volume) struct JoinedConvolution;

    impl<B: VolumeGradients> Backward<B, 3> for JoinedConvolution {
        type State = ([NodeId; 3], AnyConv);

        fn backward(
            self,
            ops: Ops<Self::State, 3>,
            gradients: &mut Gradients,
            checkpointer: &mut Checkpointer,
        ) {
            let dy = gradients.consume::<B>(&ops.node);
            let (nodes, conv) = ops.state;
            let [a, b, w]: [FloatTensor<B>; 3] =
                nodes.map(|node| checkpointer.retrieve_node_output(node));
            let [of_a, of_b, of_w] = ops.parents.map(|parent| parent.map(|node| node.id));
            // Input by input, so that nothing of both has to be in memory.
            let mut dw = Vec::new();
            let mut first = 0;
            for (node, x) in [(of_a, a), (of_b, b)] {
                let range = first..first + x.shape()[1];
                first = range.end;
                let conv = conv.of_channels(range.len());
                if of_w.is_some() {
                    dw.push(conv.weight_gradient::<B>(x, dy.clone()));
                }
                if let Some(node) = node {
                    let w = channels::<B>(w.clone(), range);
                    gradients.register::<B>(node, conv.input_gradient::<B>(dy.clone(), w));
                }
            }
            if let Some(node) = of_w {
                gradients.register::<B>(node, B::float_cat(dw, 1));
            }
        }
    }
}
