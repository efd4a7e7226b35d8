//! Forward passes that are captured: the same results as plain calls, and refusals.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{DType, Device, FloatDType, Int, Tensor};
use updraft_precision::Policy;
use updraft_testing::{alone, devices};
use updraft_trainer::{
    CaptureSettings, CapturedCallError, CapturedForward, CapturedModel, Control, NotCaptured,
    evaluate, evaluate_captured,
};

use crate::small::{Classifier, loader, task};

/// Two layers that take numbers and the index of a class, and return two tensors.
#[derive(Module, Debug)]
struct Net {
    first: Linear,
    second: Linear,
}

type Input = (Tensor<2>, Tensor<1, Int>);
type Output = (Tensor<2>, Vec<Tensor<1>>);

impl Net {
    fn new(device: &Device) -> Self {
        device.seed(7);
        let (first, second) = (LinearConfig::new(5, 16), LinearConfig::new(16, 3));
        Self { first: first.init(device), second: second.init(device) }
    }

    fn forward(&self, (numbers, classes): Input) -> Output {
        let hidden = relu(self.first.forward(numbers)) + classes.float().unsqueeze_dim::<2>(1);
        let logits = self.second.forward(hidden);
        let sums = logits.clone().sum_dim(1).squeeze_dim::<1>(1);
        (logits, vec![sums])
    }
}

/// The input of a call, with other numbers for each `at`.
fn input(rows: usize, at: usize, device: &Device) -> Input {
    let numbers: Vec<f32> =
        (0..rows * 5).map(|index| ((index * 37 + at * 101) % 97) as f32 / 31.0 - 1.5).collect();
    let classes: Vec<i32> = (0..rows).map(|row| ((row + at) % 4) as i32).collect();
    let numbers = Tensor::<1>::from_floats(numbers.as_slice(), device).reshape([rows, 5]);
    (numbers, Tensor::from_ints(classes.as_slice(), device))
}

fn bits((logits, sums): Output) -> Vec<u32> {
    let floats = |data: burn::tensor::TensorData| -> Vec<f32> { data.iter().collect() };
    let all = [floats(logits.into_data()), floats(sums[0].to_data())].concat();
    all.into_iter().map(f32::to_bits).collect()
}

#[test]
fn calls_return_the_bits_of_plain_ones_and_are_counted() {
    for device in devices() {
        let net = Net::new(&device);
        let own = net.clone();
        let forward = move |input: Input| own.forward(input);
        let example = input(6, 0, &device);
        let mut captured =
            CapturedModel::capture(forward, &example, CaptureSettings::default().with_warm_ups(2));
        let mut kept = Vec::new();
        for at in 0..6 {
            let expected = bits(net.forward(input(6, at, &device)));
            let output = captured.call(input(6, at, &device)).unwrap();
            assert_eq!(bits(output.clone()), expected, "call {at} on {device:?}");
            kept.push((output, expected));
        }
        // Later calls have not written over earlier outputs.
        for (output, expected) in kept {
            assert_eq!(bits(output), expected);
        }
        let report = captured.report().clone();
        assert_eq!(report.plain + report.replayed, 6);
        match report.reason {
            // The first input is the captured one, and proves nothing; the second one does.
            None => assert_eq!((report.plain, report.replayed), (2, 4)),
            Some(ref reason) => {
                assert_eq!(report.replayed, 0, "{reason}");
                assert_eq!(captured.take_reason().as_ref(), Some(reason));
            }
        }
        // Reported once.
        assert_eq!(captured.take_reason(), None);
    }
}

#[test]
fn flex_falls_back_with_the_reason() {
    let device = Device::flex();
    let double = |x: Tensor<1>| x * 2.0;
    let example = Tensor::<1>::ones([3], &device);
    let mut captured = CapturedModel::capture(double, &example, CaptureSettings::default());
    let reason = captured.take_reason().expect("flex offers none");
    assert!(matches!(reason, NotCaptured::NotOffered { .. }), "{reason}");
    assert!(reason.to_string().starts_with("burn offers no graphs on"), "{reason}");
    assert_eq!(captured.not_captured(), Some(&reason));
    let tracked = Tensor::<1>::ones([3], &device.autodiff());
    let captured = CapturedModel::capture(double, &tracked, CaptureSettings::default());
    assert_eq!(captured.not_captured(), Some(&NotCaptured::Autodiff));
    let captured = CapturedModel::capture(|()| (), &(), CaptureSettings::default());
    assert_eq!(captured.not_captured(), Some(&NotCaptured::NoInput));
}

#[test]
fn an_input_of_another_form_is_refused_and_computed_by_plain_calls() {
    for device in devices() {
        let runs = Cell::new(0);
        let forward = |(numbers, classes): Input| {
            runs.set(runs.get() + 1);
            numbers.sum_dim(1).squeeze_dim::<1>(1) + classes.float()
        };
        let example = input(4, 0, &device);
        let mut captured = CapturedModel::capture(forward, &example, CaptureSettings::default());
        let before = runs.get();

        let shape = captured.call(input(5, 0, &device)).unwrap_err();
        let CapturedCallError::Form { index: 0, expected, found } = shape else {
            panic!("{shape}");
        };
        assert_eq!((expected.shape, found.shape), (vec![4, 5], vec![5, 5]));

        let (numbers, classes) = input(4, 0, &device);
        if device.supports_dtype(FloatDType::F16) {
            let narrow = (numbers.cast(FloatDType::F16), classes);
            let dtype = captured.call(narrow).unwrap_err();
            let CapturedCallError::Form { index: 0, found, .. } = &dtype else {
                panic!("{dtype}");
            };
            assert_eq!(found.dtype, DType::F16);
            assert!(dtype.to_string().contains("F16"), "{dtype}");
        }
        let elsewhere = input(4, 0, &device.clone().autodiff());
        let other = captured.call(elsewhere).unwrap_err();
        assert!(matches!(other, CapturedCallError::Device { .. }), "{other}");
        // Nothing was computed for what was refused.
        assert_eq!(runs.get(), before);

        let plain: Vec<f32> =
            captured.call_plain(input(2, 1, &device)).into_data().iter().collect();
        assert_eq!(plain.len(), 2);
    }
}

#[test]
fn another_number_of_tensors_is_refused() {
    let device = Device::flex();
    let one = Tensor::<1>::ones([2], &device);
    let forward = |all: Vec<Tensor<1>>| all[0].clone();
    let example = vec![one.clone(), one.clone()];
    let mut captured = CapturedModel::capture(forward, &example, CaptureSettings::default());
    let refused = captured.call(vec![one]).unwrap_err();
    assert_eq!(refused, CapturedCallError::Count { expected: 2, found: 1 });
}

#[test]
fn a_panic_of_the_forward_pass_is_passed_on_and_leaves_the_device_usable() {
    for device in devices() {
        let example = Tensor::<1>::ones([3], &device);
        let panics = |_: Tensor<1>| -> Tensor<1> { panic!("a fault of the model") };
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let mut captured = CapturedModel::capture(panics, &example, CaptureSettings::default());
            let _ = captured.call(example.clone());
        }));
        let message = caught.expect_err("the panic");
        assert_eq!(message.downcast_ref::<&str>(), Some(&"a fault of the model"));
        // The device records nothing now: the next model is captured and called as usual.
        let add = |x: Tensor<1>| x + 1.0;
        let mut captured = CapturedModel::capture(add, &example, CaptureSettings::default());
        let output: Vec<f32> = captured.call(example.clone()).unwrap().into_data().iter().collect();
        assert_eq!(output, [2.0; 3]);
    }
}

#[test]
fn a_pass_that_panics_only_while_it_is_recorded_is_computed_by_plain_calls() {
    for device in devices() {
        let runs = Cell::new(0);
        // One run for the reference, one before the recording, then the recorded one.
        let forward = |x: Tensor<1>| {
            runs.set(runs.get() + 1);
            assert!(runs.get() != 3, "the recorded run");
            x * 3.0
        };
        let example = Tensor::<1>::ones([4], &device);
        let settings = CaptureSettings::default().with_warm_ups(1);
        let mut captured = CapturedModel::capture(forward, &example, settings);
        match captured.not_captured() {
            Some(NotCaptured::NotOffered { .. }) => runs.set(3),
            Some(NotCaptured::Panicked { message }) => assert!(message.contains("recorded run")),
            other => panic!("{other:?}"),
        }
        for at in 1..4_u8 {
            let x = Tensor::<1>::full([4], f32::from(at), &device);
            let output: Vec<f32> = captured.call(x).unwrap().into_data().iter().collect();
            assert_eq!(output, [3.0 * f32::from(at); 4]);
        }
    }
}

#[test]
fn a_pass_that_returns_its_input_is_not_replayed_with_old_numbers() {
    for device in devices() {
        let example = Tensor::<1>::zeros([4], &device);
        let mut captured =
            CapturedModel::capture(|x: Tensor<1>| x, &example, CaptureSettings::default());
        for at in 1..4_u8 {
            let x = Tensor::<1>::full([4], f32::from(at), &device);
            let output: Vec<f32> = captured.call(x).unwrap().into_data().iter().collect();
            assert_eq!(output, [f32::from(at); 4], "{:?}", captured.report());
        }
    }
}

#[test]
fn a_pass_that_is_no_function_of_its_input_is_not_replayed() {
    for device in devices() {
        let runs = Cell::new(0_u8);
        let forward = |x: Tensor<1>| {
            runs.set(runs.get() + 1);
            x + f32::from(runs.get())
        };
        let example = Tensor::<1>::zeros([2], &device);
        let mut captured = CapturedModel::capture(forward, &example, CaptureSettings::default());
        for _ in 0..4 {
            let output = captured.call(Tensor::zeros([2], &device)).unwrap();
            let output: Vec<f32> = output.into_data().iter().collect();
            assert_eq!(output, [f32::from(runs.get()); 2]);
        }
        assert!(captured.not_captured().is_some());
        assert_eq!(captured.report().replayed, 0);
    }
}

#[test]
fn calls_of_another_thread_are_plain() {
    for device in devices() {
        let example = Tensor::<1>::zeros([2], &device);
        let double = |x: Tensor<1>| x * 2.0;
        let mut captured = CapturedModel::capture(double, &example, CaptureSettings::default());
        let before = captured.report().clone();
        let x = Tensor::<1>::ones([2], &device);
        let computed = std::thread::spawn(move || {
            let output: Vec<f32> = captured.call(x).unwrap().into_data().iter().collect();
            (output, captured.report().clone())
        });
        let (output, after) = computed.join().unwrap();
        assert_eq!(output, [2.0; 2]);
        assert_eq!((after.plain, after.replayed), (before.plain + 1, before.replayed));
    }
}

#[test]
fn a_smaller_last_batch_is_computed_by_a_plain_call() {
    for device in devices() {
        let net = Net::new(&device);
        let own = net.clone();
        let mut captured = CapturedForward::new(move |input: Input| own.forward(input));
        for (rows, at) in [(6, 1), (6, 2), (6, 3), (2, 4)] {
            let expected = bits(net.forward(input(rows, at, &device)));
            assert_eq!(bits(captured.call(input(rows, at, &device))), expected);
        }
        let report = captured.report();
        assert_eq!(report.plain + report.replayed, 4);
        assert!(report.plain >= 1);
    }
}

#[test]
fn a_captured_evaluation_has_the_metrics_of_a_plain_one() {
    let _alone = alone();
    let device = Device::flex();
    let model = Classifier::new(&device.clone().autodiff()).valid();
    let (task, data) = (task(), loader(1));
    let poll = &mut |_| Control::Continue;
    let plain = evaluate(&task, &model, &data, &device, Policy::F32, poll).unwrap().unwrap();
    let on = (&device, Policy::F32);
    let captured = evaluate_captured(&task, &model, &data, on, poll).unwrap();
    let (scored, report) = captured.expect("not stopped");
    assert_eq!(scored.evaluation, plain.evaluation);
    assert_eq!(report.replayed, 0);
    assert!(report.plain > 0);
    assert!(matches!(report.reason, Some(NotCaptured::NotOffered { .. })));
    let stopped = evaluate_captured(&task, &model, &data, on, &mut |_| Control::Stop).unwrap();
    assert!(stopped.is_none());
}
