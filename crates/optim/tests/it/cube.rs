//! The kernels for GPUs, on every device that is found.

use burn::optim::Optimizer;
use burn::tensor::{DType, Tensor};
use updraft_optim::{AdamW, AdamWState, Sgd, controlled, plain_reason, takes_control};
use updraft_testing::{Numbers, gpus, launches, relative_error, scattered};

use crate::control::control;
use crate::sgd::SETTINGS;
use crate::{RATE, bits, burns, ours, sgd, tensor};

/// The largest error, relative to the largest value: a few roundings in f32.
const CLOSE: f64 = 1e-6;

/// Below, at and above the numbers of a cube, and several dimensions.
const LENGTHS: [usize; 6] = [1, 7, 1023, 1024, 1025, 5000];

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&number| f64::from(number)).collect()
}

/// `AdamW` in f64, by its formula.
struct Reference {
    parameter: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    time: i32,
}

impl Reference {
    fn new(parameter: &[f32]) -> Self {
        let zeros = vec![0.0; parameter.len()];
        Self { parameter: wide(parameter), first: zeros.clone(), second: zeros, time: 0 }
    }

    fn step(&mut self, gradient: &[f32], factor: f64, decay: f32) {
        self.time += 1;
        let [beta_1, beta_2] = [0.9_f32, 0.999].map(f64::from);
        let left = |beta: f64| 1.0 - beta.powi(self.time);
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((p, g), (m, v)) in self.parameter.iter_mut().zip(wide(gradient)).zip(moments) {
            let g = factor * g;
            *m = beta_1 * *m + (1.0 - beta_1) * g;
            *v = beta_2 * *v + (1.0 - beta_2) * g * g;
            let direction = *m / left(beta_1) / ((*v / left(beta_2)).sqrt() + 1e-8);
            *p = (1.0 - RATE * f64::from(decay)) * *p - RATE * direction;
        }
    }

    #[track_caller]
    fn assert_close<const D: usize>(&self, parameter: &Tensor<D>, state: &AdamWState<D>) {
        let pairs = [
            (parameter, &self.parameter),
            (&state.moment_1, &self.first),
            (&state.moment_2, &self.second),
        ];
        for (found, expected) in pairs {
            let error = relative_error(&found.numbers(), expected);
            assert!(error <= CLOSE, "{error:e} of {} numbers", expected.len());
        }
    }
}

#[test]
fn adamw_follows_its_formula_and_burns_operations() {
    for device in gpus() {
        assert_eq!(plain_reason(&device, DType::F32), None);
        for decay in [0.0, 0.01] {
            for len in LENGTHS {
                let mut reference = Reference::new(&scattered(1, len));
                let (mut parameter, mut state) = (tensor(1, [len], &device), None);
                let (mut other, mut of_other) = (tensor(1, [len], &device), None);
                for seed in 2..6 {
                    let gradient = || tensor::<1>(seed, [len], &device);
                    reference.step(&scattered(seed, len), 1.0, decay);
                    (parameter, state) = ours(decay).step(RATE, parameter, gradient(), state);
                    (other, of_other) = burns(decay).step(RATE, other, gradient(), of_other);
                    reference.assert_close(&parameter, state.as_ref().expect("a state"));
                    let error = relative_error(&parameter.numbers(), &other.numbers());
                    assert!(error <= CLOSE, "{error:e} from burn's, {len} numbers");
                }
            }
        }
    }
}

#[test]
fn sgd_follows_burns_operations() {
    for device in gpus() {
        for setting in SETTINGS {
            for len in LENGTHS {
                let (mut a, mut b) = (tensor::<1>(1, [len], &device), tensor(1, [len], &device));
                let (mut of_a, mut of_b) = (None, None);
                for seed in 2..5 {
                    let gradient = || tensor(seed, [len], &device);
                    (a, of_a) = sgd::ours(setting).step(RATE, a, gradient(), of_a);
                    (b, of_b) = sgd::burns(setting).step(RATE, b, gradient(), of_b);
                }
                let error = relative_error(&a.numbers(), &b.numbers());
                assert!(error <= CLOSE, "{error:e}, {setting:?}, {len} numbers");
            }
        }
    }
}

#[test]
fn the_device_decides_about_updates_and_counts_those_of_each_parameter() {
    // Whether an update is applied, and whether the second parameter takes part.
    let updates = [(false, false), (true, false), (true, false), (true, true), (false, true)];
    for device in gpus() {
        assert!(takes_control(&device) && takes_control(&device.clone().autodiff()));
        let mut references = [1, 2].map(|seed| Reference::new(&scattered(seed, 1500)));
        let mut all = [1, 2].map(|seed| (tensor::<1>(seed, [1500], &device), None));
        let (mut applied, mut seed, factor) = (0.0, 3, 0.25_f32);
        for (is_applied, is_both) in updates.into_iter().chain(updates) {
            let control = control(factor, is_applied, applied, &device);
            applied += f32::from(u8::from(is_applied));
            for which in 0..1 + usize::from(is_both) {
                seed += 1;
                let (parameter, state) = all[which].clone();
                let before = bits(parameter.to_data());
                let gradient = tensor(seed, [1500], &device);
                let (parameter, state) =
                    controlled(&control, || ours(0.01).step(RATE, parameter, gradient, state));
                if is_applied {
                    references[which].step(&scattered(seed, 1500), f64::from(factor), 0.01);
                } else {
                    assert_eq!(bits(parameter.to_data()), before);
                }
                let of_parameter = state.as_ref().expect("a state");
                references[which].assert_close(&parameter, of_parameter);
                let expected = usize::try_from(references[which].time).expect("no negative time");
                assert_eq!(of_parameter.time(), expected);
                all[which] = (parameter, state);
            }
        }
    }
}

#[test]
fn gradient_descent_under_a_control_is_that_of_the_multiplied_gradient_or_none() {
    for device in gpus() {
        for setting in SETTINGS {
            let (mut a, mut b) = (tensor::<1>(1, [300], &device), tensor(1, [300], &device));
            let (mut of_a, mut of_b) = (None, None);
            for (seed, is_applied) in (2..).zip([false, true, true, false, true]) {
                let control = control(0.5, is_applied, 0.0, &device);
                let gradient = || tensor::<1>(seed, [300], &device);
                (a, of_a) =
                    controlled(&control, || sgd::ours(setting).step(RATE, a, gradient(), of_a));
                if is_applied {
                    let gradient = gradient().mul_scalar(0.5);
                    (b, of_b) = sgd::ours(setting).step(RATE, b, gradient, of_b);
                }
                let error = relative_error(&a.numbers(), &b.numbers());
                assert!(error <= CLOSE, "{error:e}, {setting:?}, step {seed}");
            }
        }
    }
}

#[test]
fn a_skipped_update_changes_no_bit_whatever_the_gradient() {
    for device in gpus() {
        let skip = control(f32::MAX, false, 3.0, &device);
        let gradient = || Tensor::<1>::from_floats([f32::NAN, f32::INFINITY, 1e30, 0.0], &device);
        let start = || Tensor::<1>::from_floats([1.0, -0.0, f32::NAN, f32::INFINITY], &device);
        let before = bits(start().to_data());
        let (after, state) = controlled(&skip, || ours(0.1).step(RATE, start(), gradient(), None));
        assert_eq!(bits(after.to_data()), before);
        let state = state.expect("a state");
        assert_eq!((bits(state.moment_1.to_data()), state.time()), (vec![0; 4], 0));
        let sgd = Sgd::new().with_momentum(0.9).with_weight_decay(0.1);
        // One that another tensor holds is copied first.
        let held = start();
        let (after, _) = controlled(&skip, || sgd.step(RATE, held.clone(), gradient(), None));
        assert_eq!(bits(after.to_data()), before);
        // The same gradients are not skipped without a control.
        let (after, _) = sgd.step(RATE, start(), gradient(), None);
        assert!(after.numbers()[0].is_nan());
    }
}

#[test]
fn a_tensor_that_shares_its_memory_keeps_its_numbers() {
    for device in gpus() {
        let start = tensor(1, [40], &device);
        let view = tensor(1, [8, 5], &device).swap_dims(0, 1);
        let before = [bits(start.to_data()), bits(view.to_data())];
        let (after, _) = ours(0.0).step(RATE, start.clone(), tensor(2, [40], &device), None);
        let (of_view, state) = ours(0.0).step(RATE, view.clone(), tensor(3, [5, 8], &device), None);
        // So does a state.
        let kept = state.clone();
        let moment = bits(kept.expect("a state").moment_1.to_data());
        let gradient = tensor(4, [5, 8], &device);
        let (_, next) = ours(0.0).step(RATE, of_view.clone(), gradient, state.clone());
        assert_eq!(bits(state.expect("a state").moment_1.to_data()), moment);
        assert_ne!(bits(next.expect("a state").moment_1.to_data()), moment);
        assert_eq!(before, [bits(start.to_data()), bits(view.to_data())]);
        assert_ne!(before[0], bits(after.to_data()));
        let (expected, _) = burns(0.0).step(RATE, view, tensor(3, [5, 8], &device), None);
        assert!(relative_error(&of_view.numbers(), &expected.numbers()) <= CLOSE);
    }
}

#[test]
fn empty_parameters_stay_empty() {
    for device in gpus() {
        let empty = || Tensor::<2>::zeros([0, 3], &device);
        let (after, state) = ours(0.1).step(RATE, empty(), empty(), None);
        assert_eq!(after.dims(), [0, 3]);
        let (after, _) = Sgd::new().with_momentum(0.9).step(RATE, after, empty(), None);
        assert_eq!(after.dims(), [0, 3]);
        assert_eq!(state.expect("a state").time(), 1);
    }
}

#[test]
fn an_update_is_one_launch_for_a_parameter_in_its_memory() {
    for device in gpus() {
        // Kernels are compiled, and moments made, in a first run.
        let start = (tensor::<2>(1, [30, 50], &device), None);
        let first = tensor(2, [30, 50], &device);
        let (parameter, state) = AdamW::new().step(RATE, start.0, first, start.1);
        let gradient = tensor(3, [30, 50], &device);
        let (_, launched) =
            launches(&device, || AdamW::new().step(RATE, parameter, gradient, state));
        assert_eq!(launched.len(), 1, "{launched:?}");
        assert!(launched[0].contains("::adamw_step::"), "{launched:?}");
    }
}

#[test]
fn under_a_control_parameters_of_one_history_share_one_launch_more() {
    for device in gpus() {
        let mut all = [1, 2].map(|seed| (tensor::<2>(seed, [30, 50], &device), None));
        let mut launched = Vec::new();
        for (seed, applied) in [(10, 0.0), (20, 1.0)] {
            let control = control(1.0, true, applied, &device);
            let mut gradients =
                [seed, seed + 1].map(|seed| tensor(seed, [30, 50], &device)).into_iter();
            (all, launched) = launches(&device, || {
                controlled(&control, || {
                    all.map(|(parameter, state)| {
                        let gradient = gradients.next().expect("two gradients");
                        AdamW::new().step(RATE, parameter, gradient, state)
                    })
                })
            });
        }
        let of = |part: &str| launched.iter().filter(|name| name.contains(part)).count();
        let found = ["::adamw_step::", "::corrections::", "::copy_numbers::"].map(of);
        assert_eq!(found, [2, 1, 0], "{launched:?}");
        assert!(all.iter().all(|(_, state)| state.as_ref().expect("a state").time() == 2));
    }
}

#[test]
fn two_runs_give_the_same_bits() {
    for device in gpus() {
        let run = || {
            let start = (tensor::<2>(1, [60, 70], &device), None);
            let (parameter, _) = (2..5).fold(start, |(parameter, state), seed| {
                ours(0.01).step(RATE, parameter, tensor(seed, [60, 70], &device), state)
            });
            bits(parameter.to_data())
        };
        assert_eq!(run(), run());
    }
}
