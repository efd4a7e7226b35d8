//! Gradient descent beside burn's.

use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{ModuleOptimizer, Optimizer, SgdConfig};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use updraft_optim::Sgd;

use crate::{Net, RATE, bits, tensor};

/// Momentum with and without Nesterov's, and weight decay, each alone and together.
pub(crate) const SETTINGS: [(f32, bool, f32); 6] = [
    (0.0, false, 0.0),
    (0.0, false, 0.01),
    (0.9, false, 0.0),
    (0.9, true, 0.0),
    (0.8, false, 0.01),
    (0.85, true, 0.03),
];

pub(crate) fn ours((momentum, is_nesterov, decay): (f32, bool, f32)) -> Sgd {
    Sgd::new().with_momentum(momentum).with_nesterov(is_nesterov).with_weight_decay(decay)
}

pub(crate) fn burns((momentum, is_nesterov, decay): (f32, bool, f32)) -> burn::optim::Sgd {
    let of_momentum = MomentumConfig::new()
        .with_momentum(f64::from(momentum))
        .with_dampening(0.0)
        .with_nesterov(is_nesterov);
    SgdConfig::new()
        .with_momentum((momentum > 0.0).then_some(of_momentum))
        .with_weight_decay((decay > 0.0).then(|| WeightDecayConfig::new(decay)))
        .build()
}

/// The bits of a parameter after each of several steps, which depend on its velocity.
fn steps<O: Optimizer, const D: usize>(optimizer: &O, shape: [usize; D]) -> Vec<Vec<u32>> {
    let device = Device::flex();
    let (mut parameter, mut state) = (tensor(1, shape, &device), None);
    let mut all = Vec::new();
    for step in 0..4 {
        let gradient = tensor(2 + step, shape, &device);
        (parameter, state) = optimizer.step(RATE, parameter, gradient, state);
        all.push(bits(parameter.to_data()));
    }
    all
}

#[test]
fn every_bit_is_that_of_burns_operations() {
    for setting in SETTINGS {
        let (ours, burns) = (ours(setting), burns(setting));
        assert_eq!(steps(&ours, [7]), steps(&burns, [7]), "{setting:?}");
        assert_eq!(steps(&ours, [8, 4, 3, 3]), steps(&burns, [8, 4, 3, 3]), "{setting:?}");
        // Several pieces, the last one shorter.
        assert_eq!(steps(&ours, [300, 170]), steps(&burns, [300, 170]), "{setting:?}");
    }
}

#[test]
fn a_tensor_that_shares_its_memory_keeps_its_numbers() {
    let device = Device::flex();
    let (start, gradient) = (tensor(1, [40], &device), tensor(2, [40], &device));
    let before = [&start, &gradient].map(|tensor| bits(tensor.to_data()));
    for setting in SETTINGS {
        let (after, _) = ours(setting).step(RATE, start.clone(), gradient.clone(), None);
        assert_ne!(before[0], bits(after.to_data()));
        assert_eq!(before, [&start, &gradient].map(|tensor| bits(tensor.to_data())));
    }
}

#[test]
fn parameters_of_other_types_are_updated_by_burns_operations() {
    let device = Device::flex();
    let in_f64 = |seed| tensor::<1>(seed, [33], &device).cast(FloatDType::F64);
    for setting in SETTINGS {
        let (mut a, mut b): (Tensor<1>, _) = (in_f64(1), in_f64(1));
        let (mut of_a, mut of_b) = (None, None);
        for step in 2..5 {
            (a, of_a) = ours(setting).step(RATE, a, in_f64(step), of_a);
            (b, of_b) = burns(setting).step(RATE, b, in_f64(step), of_b);
        }
        assert_eq!(a.dtype(), DType::F64);
        assert_eq!(a.to_data(), b.to_data(), "{setting:?}");
    }
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    for (name, run) in [
        ("momentum", (|| Sgd::new().with_momentum(1.0)) as fn() -> Sgd),
        ("momentum", || Sgd::new().with_momentum(f32::NAN)),
        ("weight_decay", || Sgd::new().with_weight_decay(f32::INFINITY)),
    ] {
        let panic = std::panic::catch_unwind(run).expect_err(name);
        let text = panic.downcast_ref::<&str>().expect("a text");
        assert!(text.starts_with(&format!("`{name}` must be")), "{text}");
    }
}

#[test]
fn a_module_trains_to_the_bits_of_burns_optimizer_also_from_a_record_of_the_other() {
    let _alone = updraft_testing::alone();
    let device = Device::flex().autodiff();
    for setting in SETTINGS {
        let mut expected_by = ModuleOptimizer::from(burns(setting));
        // A record names parameters by their ids, which copies share.
        let start = Net::new(&device);
        let begun = start.clone().trained(&mut expected_by, 0..3);
        let record = expected_by.to_record();
        let expected = begun.clone().trained(&mut expected_by, 3..7);
        let expected = bits(expected.weight.val().to_data());

        let mut optimizer = ModuleOptimizer::from(ours(setting));
        let whole = start.trained(&mut optimizer, 0..3);
        let back = optimizer.to_record();
        let whole = whole.trained(&mut optimizer, 3..7);
        assert_eq!(bits(whole.weight.val().to_data()), expected, "{setting:?}");

        let mut resumed = ModuleOptimizer::from(ours(setting)).load_record(record);
        let net = begun.clone().trained(&mut resumed, 3..7);
        assert_eq!(bits(net.weight.val().to_data()), expected, "{setting:?}");
        let mut resumed = ModuleOptimizer::from(burns(setting)).load_record(back);
        let net = begun.trained(&mut resumed, 3..7);
        assert_eq!(bits(net.weight.val().to_data()), expected, "{setting:?}");
    }
}
