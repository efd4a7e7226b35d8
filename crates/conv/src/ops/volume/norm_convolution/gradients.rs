//! The gradients of convolutions next to normalizations and of two tensors: what lies between is
//! computed again.

use burn::backend::TensorMetadata as _;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;

use super::composed::{AnyConv, NormConvSpec};
use crate::ops::extension::Operand;
use crate::ops::graph::{register, with_optional};
use crate::ops::join::gradient::channels;
use crate::ops::volume::extension::VolumeGradients;

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
            let (gamma, beta) = (gamma.clone(), beta.clone());
            let (read, ..) = B::group_normalization(x.clone(), gamma, beta, Operand::Absent, norm);
            gradients.register::<B>(node, conv.weight_gradient::<B>(read, dy.clone()));
        }
        if own.iter().any(Option::is_some) {
            let dread = conv.input_gradient::<B>(dy, w);
            let all = B::group_normalization_gradient(x, [gamma, beta], statistics, dread, norm);
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
        let [of_x, of_w, of_gamma, of_beta] = ops.parents.map(|parent| parent.map(|node| node.id));
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
