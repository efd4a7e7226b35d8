//! Fake quantization: our kernels against burn's operations, and against the equations.

use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor, TensorData};
use updraft_conv::fake_quantize;
use updraft_testing::{Numbers, assert_close, autodiff_devices, devices, tolerance};

/// Value, and the gradients of numbers and steps for the loss `Σ y·weight`.
fn results(
    [x, weight]: [&Tensor<4>; 2],
    (steps, lowest, levels): (&[f64], f64, u32),
    dtype: FloatDType,
) -> [Vec<f64>; 3] {
    let device = x.device();
    let of = |values: &[f64]| {
        let data = TensorData::new(values.to_vec(), [values.len()]);
        Tensor::<1>::from_data(data, (&device, DType::from(dtype)))
    };
    let (x, steps) = (x.clone().cast(dtype).require_grad(), of(steps).require_grad());
    let y = fake_quantize(x.clone(), steps.clone(), of(&[lowest]), levels);
    let gradients = (y.clone() * weight.clone().cast(dtype)).sum().backward();
    let dx = x.grad(&gradients).expect("on the graph").numbers();
    let dsteps = steps.grad(&gradients).expect("on the graph").numbers();
    [y.numbers(), dx, dsteps]
}

fn random(shape: [usize; 4], device: &Device) -> Tensor<4> {
    Tensor::random(shape, Distribution::Uniform(-1.5, 1.5), device)
}

#[test]
fn kernels_and_plain_operations_agree_with_the_equations() {
    for device in autodiff_devices() {
        device.seed(11);
        let shape = [3, 2, 5, 7];
        let [x, weight] = [(); 2].map(|()| random(shape, &device));
        // A single step with a zero point, and one for each index of the first axis.
        for (steps, lowest, levels) in
            [(&[0.009][..], -100.0, 255), (&[0.11, 0.05, 0.3], -7.0, 14), (&[0.02], 0.0, 255)]
        {
            let codes = (steps, lowest, levels);
            let [y, dx, dsteps] = results([&x, &weight], codes, FloatDType::F32);
            let [y_64, dx_64, dsteps_64] = results([&x, &weight], codes, FloatDType::F64);
            let (x, weight) = (x.numbers(), weight.numbers());
            let each = x.len() / steps.len();
            let of_one_sample = if steps.len() == 1 { x.len() / 3 } else { each };
            let greatest = lowest + f64::from(levels);
            let most = if steps.len() == 1 { f64::from(levels) } else { greatest };
            let scale = 1.0 / (of_one_sample as f64 * most).sqrt();
            let mut right = vec![0.0; steps.len()];
            for i in 0..x.len() {
                let v = x[i] / steps[i / each];
                let code = v.round_ties_even().clamp(lowest, greatest);
                let is_inside = (lowest..=greatest).contains(&v);
                for y in [&y, &y_64] {
                    assert!((y[i] - code * steps[i / each]).abs() < 1e-6, "{device:?} {i}");
                }
                let passed = if is_inside { weight[i] } else { 0.0 };
                assert!((dx[i] - passed).abs() < 1e-6 && (dx_64[i] - passed).abs() < 1e-6);
                let of_step = if is_inside { code - v } else { code };
                right[i / each] += weight[i] * of_step * scale;
            }
            for (given, right) in dsteps.iter().chain(&dsteps_64).zip(right.iter().cycle()) {
                assert!((given - right).abs() < 1e-4 * right.abs().max(1.0), "{given} {right}");
            }
        }
    }
}

#[test]
fn a_result_is_its_own_result_without_a_graph() {
    for device in devices() {
        device.seed(12);
        let x = random([2, 3, 4, 5], &device);
        let by = |values: [f32; 1]| Tensor::<1>::from_floats(values, &device);
        let once = fake_quantize(x, by([0.25]), by([-2.0]), 3);
        let twice = fake_quantize(once.clone(), by([0.25]), by([-2.0]), 3);
        assert_close(&twice, &once.numbers(), tolerance::F32);
        let most = once.numbers().iter().fold(0.0_f64, |most, value| most.max(value.abs()));
        assert_eq!(most, 0.5);
    }
}

#[test]
#[should_panic(expected = "expected 1 step or 3, got 2")]
fn steps_of_another_number_are_refused() {
    let device = Device::flex();
    let (steps, lowest) = (Tensor::ones([2], &device), Tensor::zeros([1], &device));
    let _ = fake_quantize(Tensor::<2>::ones([3, 4], &device), steps, lowest, 255);
}
