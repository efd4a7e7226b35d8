//! The shapes of the gradients, which burn's fusion asks for before it computes them.

use burn::backend::fusion::custom::TensorSpec;

use super::extension::{LayerGradientsMetadata, OperandMetadata, Spec, Wanted};

#[expect(
    clippy::too_many_arguments,
    reason = "the arguments of `KanGradients::kan_layer_gradients`"
)]
pub(super) fn gradients(
    x: &TensorSpec,
    spline: &TensorSpec,
    base: &OperandMetadata,
    scaler: &OperandMetadata,
    has_bias: &bool,
    dy: &TensorSpec,
    _spec: &Spec,
    wanted: &Wanted,
) -> LayerGradientsMetadata {
    let given = |is_wanted: bool, like: &TensorSpec| match is_wanted {
        true => OperandMetadata::Given(like.clone()),
        false => OperandMetadata::Absent,
    };
    let edges = |edges: &OperandMetadata| match edges {
        OperandMetadata::Given(edges) => given(wanted.parameters, edges),
        OperandMetadata::Absent => OperandMetadata::Absent,
    };
    let bias = TensorSpec::new([dy.shape[1]].into(), dy.dtype);
    LayerGradientsMetadata {
        x: given(wanted.x, x),
        spline: given(wanted.parameters, spline),
        base: edges(base),
        scaler: edges(scaler),
        bias: given(wanted.parameters && *has_bias, &bias),
    }
}
