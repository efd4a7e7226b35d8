//! Normalizations with two dtypes are refused by name, before they panic in a run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::Module;
use burn::nn::{
    BatchNorm, BatchNormConfig, GroupNorm, GroupNormConfig, InstanceNorm, InstanceNormConfig,
    LayerNorm, LayerNormConfig, Linear, LinearConfig, RmsNorm, RmsNormConfig,
};
use burn::tensor::{Device, FloatDType, Tensor};
use updraft_precision::{Arithmetic, Policy, PrecisionError, Products, norms};
use updraft_simd::Bf16Unit;
use updraft_testing::{alone, devices};

#[derive(Module, Debug)]
struct Block {
    batch: BatchNorm,
    layer: LayerNorm,
    group: GroupNorm,
    instance: InstanceNorm,
    rms: RmsNorm,
}

#[derive(Module, Debug)]
struct Net {
    input: Linear,
    block: Block,
}

fn net(device: &Device) -> Net {
    let block = Block {
        batch: BatchNormConfig::new(4).init(device),
        layer: LayerNormConfig::new(4).init(device),
        group: GroupNormConfig::new(2, 4).init(device),
        instance: InstanceNormConfig::new(4).init(device),
        rms: RmsNormConfig::new(4).init(device),
    };
    Net { input: LinearConfig::new(4, 4).init(device), block }
}

#[test]
fn every_normalization_is_found_with_its_type() {
    let _alone = alone();
    let found = norms(&net(&Device::flex()));
    let found: Vec<_> =
        found.iter().map(|norm| format!("{} {}", norm.path, norm.container)).collect();
    let expected = [
        "block.batch BatchNorm",
        "block.layer LayerNorm",
        "block.group GroupNorm",
        "block.instance InstanceNorm",
        "block.rms RmsNorm",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_first_unconfirmed_normalization_is_named() {
    let _alone = alone();
    let net = net(&Device::flex());
    let refused = Policy::BF16_MIXED
        .check_norms(&net, |norm| norm.path == "block.batch")
        .expect_err("the next one is refused");
    let message = refused.to_string();
    for part in ["`block.layer`", "LayerNorm", "bf16-mixed"] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    assert_eq!(Policy::BF16_MIXED.check_norms(&net, |_| true), Ok(()));
    assert_eq!(Policy::F32.check_norms(&net, |_| false), Ok(()));
}

#[test]
fn the_layers_of_burn_that_are_refused_do_panic_on_a_narrow_input() {
    for device in devices() {
        let net = Policy::BF16_MIXED.autocast(net(&device));
        let x = Tensor::<3>::ones([2, 4, 4], &device).cast(FloatDType::BF16);
        let panics = |forward: &dyn Fn() -> Tensor<3>| {
            catch_unwind(AssertUnwindSafe(|| forward().into_data())).is_err()
        };
        let block = &net.block;
        assert!(panics(&|| block.batch.forward(x.clone())));
        assert!(panics(&|| block.layer.forward(x.clone())));
        assert!(panics(&|| block.group.forward(x.clone())));
        assert!(panics(&|| block.instance.forward(x.clone())));
        assert!(panics(&|| block.rms.forward(x.clone())));
        // What is no normalization computes.
        assert!(!panics(&|| net.input.forward(x.clone())));
    }
}

#[test]
fn a_device_is_asked_for_every_dtype_of_the_policy() {
    let flex = Device::flex();
    assert_eq!(Policy::BF16_MIXED.check_device(&flex), Ok(Arithmetic::General));
    let policy = Policy { compute: FloatDType::Flex32, ..Policy::F32 };
    let refused = policy.check_device(&flex).expect_err("flex has no flex32");
    assert!(matches!(refused, PrecisionError::UnsupportedDtype { .. }), "{refused}");
    assert!(refused.to_string().contains("Flex32"), "{refused}");
}

#[test]
fn products_in_bf16_need_a_processor_that_computes_them_faster() {
    let policy = Policy::BF16_PRODUCTS;
    assert_eq!(policy.check_training(), Ok(()));
    for device in [Device::flex(), Device::flex().autodiff()] {
        let of_device = Policy::of_device(&device).0;
        match policy.check_device(&device) {
            Ok(arithmetic) => {
                assert!(Bf16Unit::detect().is_fast(), "there is no unit");
                assert_eq!(arithmetic, Arithmetic::TensorCores);
                // Convolutions gain from tiles alone.
                assert_eq!(of_device == policy, Bf16Unit::detect().has_tiles());
            }
            Err(refused) => {
                assert!(!Bf16Unit::detect().is_fast(), "{refused}");
                assert!(refused.to_string().contains("AMX"), "{refused}");
                assert_eq!(of_device, Policy::F32);
            }
        }
    }
    // The scope of a policy without products in bf16 ends one around it.
    let inner = Products::Bf16.scope(|| Policy::F32.scope(Products::current));
    assert_eq!(inner, Products::F32);
}
