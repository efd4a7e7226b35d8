//! The optimizers beside burn's, on burn's tensors.

mod control;
#[cfg(feature = "cube")]
mod cube;
mod sgd;

use std::ops::Range;

use burn::module::{Module, Param};
use burn::optim::{AdamWConfig, GradientsParams, LearningRate, ModuleOptimizer, Optimizer};
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use updraft_optim::{AdamW, AdamWState};
use updraft_testing::scattered;

const RATE: LearningRate = 3e-3;

fn ours(decay: f32) -> AdamW {
    AdamW::new().with_weight_decay(decay)
}

fn burns(decay: f32) -> burn::optim::AdamW {
    AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(decay).build()
}

fn tensor<const D: usize>(seed: u32, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(scattered(seed, shape.iter().product()), shape), device)
}

fn bits(data: TensorData) -> Vec<u32> {
    data.iter::<f32>().map(f32::to_bits).collect()
}

/// The number of updates, and both moments.
trait Moments<const D: usize> {
    fn moments(&self) -> (usize, [&Tensor<D>; 2]);
}

impl<const D: usize> Moments<D> for AdamWState<D> {
    fn moments(&self) -> (usize, [&Tensor<D>; 2]) {
        (self.time(), [&self.moment_1, &self.moment_2])
    }
}

impl<const D: usize> Moments<D> for burn::optim::AdamWState<D> {
    fn moments(&self) -> (usize, [&Tensor<D>; 2]) {
        let momentum = &self.momentum;
        (momentum.time, [&momentum.moment_1, &momentum.moment_2])
    }
}

/// The bits of a parameter and its moments after each of several steps.
fn steps<O: Optimizer, const D: usize>(optimizer: &O, shape: [usize; D]) -> Vec<[Vec<u32>; 3]>
where
    O::State<D>: Moments<D>,
{
    let device = Device::flex();
    let (mut parameter, mut state) = (tensor(1, shape, &device), None);
    let mut all = Vec::new();
    for step in 0..4 {
        let gradient = tensor(2 + step, shape, &device);
        (parameter, state) = optimizer.step(RATE, parameter, gradient, state);
        let (time, [first, second]) = state.as_ref().expect("a step has a state").moments();
        assert_eq!(time, step as usize + 1);
        all.push([&parameter, first, second].map(|tensor| bits(tensor.to_data())));
    }
    all
}

#[test]
fn every_bit_is_that_of_burns_operations() {
    for decay in [0.0, 0.01] {
        assert_eq!(steps(&ours(decay), [7]), steps(&burns(decay), [7]));
        assert_eq!(steps(&ours(decay), [3, 129]), steps(&burns(decay), [3, 129]));
        assert_eq!(steps(&ours(decay), [8, 4, 3, 3]), steps(&burns(decay), [8, 4, 3, 3]));
        // Several pieces, the last one shorter.
        assert_eq!(steps(&ours(decay), [300, 170]), steps(&burns(decay), [300, 170]));
    }
}

#[test]
fn what_is_not_finite_stays_where_it_is() {
    let device = Device::flex();
    let gradient = Tensor::<1>::from_floats([f32::NAN, 1.0, f32::INFINITY, 0.0], &device);
    let start = || Tensor::<1>::from_floats([1.0, 2.0, 3.0, f32::NAN], &device);
    let (a, _) = ours(0.1).step(RATE, start(), gradient.clone(), None);
    let (b, _) = burns(0.1).step(RATE, start(), gradient, None);
    let (a, b) = (a.to_data(), b.to_data());
    let is_finite = |data: &TensorData| data.iter::<f32>().map(f32::is_finite).collect::<Vec<_>>();
    assert_eq!(is_finite(&a), [false, true, false, false]);
    assert_eq!(is_finite(&a), is_finite(&b));
}

#[test]
fn a_tensor_that_shares_its_memory_keeps_its_numbers() {
    let device = Device::flex();
    let start = tensor(1, [40], &device);
    let view = tensor(1, [8, 5], &device).swap_dims(0, 1);
    let before = [bits(start.to_data()), bits(view.to_data())];
    let (after, _) = ours(0.0).step(RATE, start.clone(), tensor(2, [40], &device), None);
    let (of_view, _) = ours(0.0).step(RATE, view.clone(), tensor(3, [5, 8], &device), None);
    assert_eq!(before, [bits(start.to_data()), bits(view.to_data())]);
    assert_ne!(before[0], bits(after.to_data()));
    let (expected, _) = burns(0.0).step(RATE, view, tensor(3, [5, 8], &device), None);
    assert_eq!(bits(of_view.to_data()), bits(expected.to_data()));
}

#[test]
fn parameters_of_other_types_are_updated_by_burns_operations() {
    let device = Device::flex();
    let in_f64 = |seed| tensor::<1>(seed, [33], &device).cast(FloatDType::F64);
    let (ours, _) = ours(0.01).step(RATE, in_f64(1), in_f64(2), None);
    let (burns, _) = burns(0.01).step(RATE, in_f64(1), in_f64(2), None);
    assert_eq!(ours.dtype(), DType::F64);
    assert_eq!(ours.to_data(), burns.to_data());
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    for (name, run) in [
        ("beta_1", (|| AdamW::new().with_betas([1.0, 0.9])) as fn() -> AdamW),
        ("beta_2", || AdamW::new().with_betas([0.9, f32::NAN])),
        ("epsilon", || AdamW::new().with_epsilon(0.0)),
        ("weight_decay", || AdamW::new().with_weight_decay(-0.1)),
    ] {
        let panic = std::panic::catch_unwind(run).expect_err(name);
        let text = panic.downcast_ref::<&str>().expect("a text");
        assert!(text.starts_with(&format!("`{name}` must be")), "{text}");
    }
}

/// One parameter.
#[derive(Module, Debug)]
struct Net {
    weight: Param<Tensor<2>>,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self { weight: Param::from_tensor(tensor(9, [6, 5], device)) }
    }

    /// Steps on the loss `Σ (weight · x)²`.
    fn trained(self, optimizer: &mut ModuleOptimizer, steps: Range<u32>) -> Self {
        let device = self.weight.val().device();
        steps.fold(self, |net, step| {
            let x = tensor(20 + step, [5, 3], &device);
            let loss = net.weight.val().matmul(x).square().sum();
            let gradients = GradientsParams::from_grads(loss.backward(), &net);
            optimizer.step(RATE, net, gradients)
        })
    }
}

#[test]
fn a_module_trains_to_the_bits_of_burns_optimizer_also_from_a_record_of_the_other() {
    let _alone = updraft_testing::alone();
    let device = Device::flex().autodiff();
    let mut expected_by = ModuleOptimizer::from(burns(0.01));
    let begun = Net::new(&device).trained(&mut expected_by, 0..3);
    let record = expected_by.to_record();
    let expected = begun.clone().trained(&mut expected_by, 3..7);

    let mut optimizer = ModuleOptimizer::from(ours(0.01));
    let whole = Net::new(&device).trained(&mut optimizer, 0..7);
    assert_eq!(bits(whole.weight.val().to_data()), bits(expected.weight.val().to_data()));

    let mut resumed = ModuleOptimizer::from(ours(0.01)).load_record(record);
    let net = begun.trained(&mut resumed, 3..7);
    assert_eq!(bits(net.weight.val().to_data()), bits(expected.weight.val().to_data()));
}
