//! Every promised name, imported.

#[expect(unused_imports, reason = "importing them is the test")]
use updraft_conv::{
    Activation, AdaptiveAvgPool2d, AvgPool2d, BatchNorm, BatchNormOutput, Conv1d, Conv2d,
    ConvNormActivation, LayerPath, MaxPool2d, ObservedConvolution, activate, batch_norm_train,
    conv2d, observe_convolutions, weighted_sum,
};

#[cfg(feature = "flex")]
#[expect(unused_imports, reason = "importing it is the test")]
use updraft_conv::release_memory;

#[expect(unused_imports, reason = "importing them is the test")]
use updraft_conv::slices::{
    Algorithm, BatchNormShape, ConvGeometry, ConvShape, Divisor, GeometryError, Isa, NormGradients,
    Normalization, Pass, PoolGeometry, PoolShape, Pooling, Scratch, Statistics, Strategy,
    activate as activate_slice, activate_gradient, batch_norm, batch_norm_gradient,
    batch_norm_inference, batch_norm_inference_gradient, bias_gradient, forward, forward_activated,
    input_gradient, pool, pool_gradient, strategy, weight_gradient,
    weighted_sum as weighted_sum_of_slices, weighted_sum_gradient,
};

#[test]
fn what_computes_prints_for_a_report() {
    assert_eq!(LayerPath::Plain.to_string(), "plain");
    assert_eq!(LayerPath::Kernels(Isa::Portable).to_string(), "kernels (portable)");
}
