//! The gradients of a layer, by hand.

use std::sync::Arc;

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;

use super::conv_autodiff;
use super::extension::{ConvSpec, KanBackend, Parts, Spec, Wanted};
use crate::kernels::PackedLayer;

#[derive(Debug)]
struct Layer;

impl<B: KanBackend> Backward<B, 5> for Layer {
    type State = ([NodeId; 4], Spec);

    fn backward(
        self,
        ops: Ops<Self::State, 5>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let dy = gradients.consume::<B>(&ops.node);
        let (states, spec) = ops.state;
        let [x, spline, base, scaler]: [FloatTensor<B>; 4] =
            states.map(|state| checkpointer.retrieve_node_output(state));
        let [of_x, parameters @ ..] = &ops.parents;
        let wanted =
            Wanted { x: of_x.is_some(), parameters: parameters.iter().any(Option::is_some) };
        let parts = spec.parts;
        let all = B::kan_layer_gradient(x, spline, base, scaler, dy, spec, wanted);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B>(parents, all.into(), parts, gradients);
    }
}

/// Registers the gradient of each parent, if it was computed.
pub(super) fn register<B: KanBackend>(
    parents: [Option<NodeId>; 5],
    all: [FloatTensor<B>; 5],
    parts: Parts,
    gradients: &mut Gradients,
) {
    let there = [true, true, parts.base, parts.scaler, parts.bias];
    for ((parent, gradient), is_there) in parents.into_iter().zip(all).zip(there) {
        if let Some(id) = parent
            && is_there
        {
            gradients.register::<B>(id, gradient);
        }
    }
}

/// A layer without gradients, for tensors that require none.
#[derive(Debug)]
struct Packed;

const PACKED_HAS_NO_GRADIENTS: &str =
    "a packed layer has no gradients; call `KanLinear::forward`, or `detach` its input";

impl<B: KanBackend> Backward<B, 1> for Packed {
    type State = ();

    fn backward(self, _: Ops<(), 1>, _: &mut Gradients, _: &mut Checkpointer) {
        unreachable!("{PACKED_HAS_NO_GRADIENTS}");
    }
}

impl<B: KanBackend, C: CheckpointStrategy> KanBackend for Autodiff<B, C> {
    fn kan_layer(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        base: FloatTensor<Self>,
        scaler: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        let nodes = [&x, &spline, &base, &scaler, &bias].map(|tensor| tensor.node());
        match Layer.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let states = [&x, &spline, &base, &scaler].map(|tensor| prep.checkpoint(tensor));
                let y = inner::<B, C>([x, spline, base, scaler, bias], spec.clone());
                prep.finish((states, spec), y)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(inner::<B, C>([x, spline, base, scaler, bias], spec))
            }
        }
    }

    fn kan_layer_gradient(
        _x: FloatTensor<Self>,
        _spline: FloatTensor<Self>,
        _base: FloatTensor<Self>,
        _scaler: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _spec: Spec,
        _wanted: Wanted,
    ) -> (
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
    ) {
        unreachable!("burn's autodiff is first-order: nothing asks for a gradient's gradient")
    }

    fn kan_conv(
        x: FloatTensor<Self>,
        spline: FloatTensor<Self>,
        base: FloatTensor<Self>,
        scaler: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        spec: ConvSpec,
    ) -> FloatTensor<Self> {
        conv_autodiff::tracked::<B, C>([x, spline, base, scaler, bias], spec)
    }

    fn kan_conv_gradient(
        _x: FloatTensor<Self>,
        _spline: FloatTensor<Self>,
        _base: FloatTensor<Self>,
        _scaler: FloatTensor<Self>,
        _dy: FloatTensor<Self>,
        _spec: ConvSpec,
        _wanted: Wanted,
    ) -> (
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
    ) {
        unreachable!("burn's autodiff is first-order: nothing asks for a gradient's gradient")
    }

    fn kan_packed(x: FloatTensor<Self>, layer: Arc<PackedLayer>) -> FloatTensor<Self> {
        match Packed.prepare::<C>([x.node()]).compute_bound().stateful() {
            OpsKind::Tracked(_) => panic!("{PACKED_HAS_NO_GRADIENTS}"),
            OpsKind::UnTracked(prep) => prep.finish(B::kan_packed(x.into_primitive(), layer)),
        }
    }
}

fn inner<B: KanBackend, C: CheckpointStrategy>(
    tensors: [FloatTensor<Autodiff<B, C>>; 5],
    spec: Spec,
) -> FloatTensor<B> {
    let [x, spline, base, scaler, bias] = tensors.map(|tensor| tensor.into_primitive());
    B::kan_layer(x, spline, base, scaler, bias, spec)
}
