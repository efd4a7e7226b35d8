//! The norm that stays on the device, beside its formula in f64 and what the host decides.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use updraft_precision::{
    DeviceNorm, LossScale, LossScaler, NormReason, Unscaled, device_norm, norm_reason,
};
use updraft_testing::{devices, scattered_to};

/// The largest relative error: sums of squares in f32 by pairs, and a few roundings.
pub(crate) const CLOSE: f64 = 1e-6;

/// Two parameters.
#[derive(Module, Debug)]
pub(crate) struct Pair {
    pub(crate) left: Linear,
    pub(crate) right: Linear,
}

/// A module with gradients of these values, in the shapes `[rows, 5]` and `[3, 4]`.
pub(crate) fn pair(
    left: &[f32],
    right: &[f32],
    device: &Device,
    dtype: FloatDType,
) -> (Pair, GradientsParams) {
    let layer = |inputs, outputs| LinearConfig::new(inputs, outputs).with_bias(false).init(device);
    let rows = left.len() / 5;
    // The shapes of parameters and gradients need not agree for a norm.
    let pair = Pair { left: layer(1, 1), right: layer(1, 1) };
    let mut gradients = GradientsParams::new();
    for (layer, values, shape) in [(&pair.left, left, [rows, 5]), (&pair.right, right, [3, 4])] {
        let gradient = match values.is_empty() {
            true => Tensor::<2>::zeros(shape, device),
            false => Tensor::from_data(TensorData::new(values.to_vec(), shape), device),
        };
        gradients.register(layer.weight.id, gradient.cast(dtype));
    }
    (pair, gradients)
}

/// Norm, finiteness and factor as the host reads them.
pub(crate) fn read(found: DeviceNorm) -> [f64; 3] {
    let DeviceNorm { norm, is_finite, factor } = found;
    [norm, is_finite, factor].map(|number| {
        assert_eq!((number.dims(), number.dtype()), ([1], DType::F32));
        f64::from(number.into_scalar::<f32>())
    })
}

pub(crate) fn number(number: f32, device: &Device) -> Tensor<1> {
    Tensor::from_floats([number], device)
}

/// Compares norms with the formula, for gradients of several sizes, scales and bounds.
pub(crate) fn check_formula(device: &Device, dtype: FloatDType, rows: usize) {
    for (size, scale, share) in
        [(1.0, 1.0, None), (1e-2, 1024.0, Some(0.3)), (1e3, 3.0, Some(2.0)), (20.0, 0.5, Some(0.9))]
    {
        let (left, right) = (scattered_to(size, 1, rows * 5), scattered_to(3.0 * size, 2, 12));
        let (module, gradients) = pair(&left, &right, device, dtype);
        // As the dtype has rounded them.
        let numbers = [&module.left, &module.right].map(|layer| {
            let gradient = gradients.get::<2>(layer.weight.id).expect("a gradient");
            gradient.into_data().iter::<f64>().map(|number| number * number).sum::<f64>()
        });
        let norm = numbers.iter().sum::<f64>().sqrt() / f64::from(scale);
        let max_norm = share.map(|share| share * norm);
        let clipped = share.map_or(1.0, |share| f64::min(share, 1.0));
        let expected = [norm, 1.0, clipped / f64::from(scale)];
        let found = device_norm(&gradients, &module, number(scale, device), max_norm);
        for (found, expected) in read(found).into_iter().zip(expected) {
            let error = (found - expected).abs() / expected;
            assert!(error <= CLOSE, "{error:e}: {found}, not {expected}, {rows} rows, {dtype:?}");
        }
    }
}

/// Compares what a norm that is not finite decides.
pub(crate) fn check_overflows(device: &Device) {
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX];
    for (bad, is_last) in bad.into_iter().flat_map(|bad| [(bad, false), (bad, true)]) {
        let mut values = vec![1.0; 50_000];
        values[if is_last { 49_999 } else { 300 }] = bad;
        let (module, gradients) = pair(&values, &[1.0; 12], device, FloatDType::F32);
        for max_norm in [None, Some(0.5)] {
            let found = device_norm(&gradients, &module, number(4.0, device), max_norm);
            let [norm, is_finite, factor] = read(found);
            assert!(!norm.is_finite(), "{bad}: {norm}");
            assert_eq!([is_finite, factor], [0.0, 0.25], "{bad}, {max_norm:?}");
        }
    }
}

#[test]
fn norm_and_factor_follow_their_formulas() {
    for device in devices() {
        for rows in [1, 7, 1000] {
            check_formula(&device, FloatDType::F32, rows);
        }
        check_formula(&device, FloatDType::F16, 7);
    }
}

#[test]
fn a_norm_that_is_not_finite_is_reported_and_the_factor_stays_finite() {
    for device in devices() {
        check_overflows(&device);
    }
}

#[test]
fn without_gradients_the_norm_is_zero() {
    for device in devices() {
        let (module, _) = pair(&[1.0; 5], &[1.0; 12], &device, FloatDType::F32);
        let none = GradientsParams::new();
        let found = device_norm(&none, &module, number(8.0, &device), Some(1.0));
        assert_eq!(read(found), [0.0, 1.0, 0.125]);
    }
}

#[test]
fn the_host_decides_the_same() {
    for device in devices() {
        for (last, max_norm) in [
            (1.0, None),
            (1.0, Some(0.25)),
            (1.0, Some(1e9)),
            (f32::NAN, Some(1.0)),
            (f32::MAX, None),
        ] {
            let values: Vec<f32> = scattered_to(2.0, 5, 34).into_iter().chain([last]).collect();
            let (module, gradients) = pair(&values, &[0.5; 12], &device, FloatDType::F32);
            let settings = LossScale::Static { scale: 1024.0 };
            let mut scaler = LossScaler::try_new(settings).expect("valid");
            let before = gradients.get::<2>(module.right.weight.id).expect("a gradient");
            let before = f64::from(before.max().into_scalar::<f32>());
            let found = device_norm(&gradients, &module, number(1024.0, &device), max_norm);
            let [norm, is_finite, factor] = read(found);
            match scaler.unscale(gradients, &module, max_norm) {
                Ok(Unscaled::Update { gradients, norm: expected }) => {
                    assert_eq!(is_finite, 1.0);
                    assert!((norm - expected).abs() <= CLOSE * expected, "{norm}, not {expected}");
                    let after = gradients.get::<2>(module.right.weight.id).expect("a gradient");
                    let after = f64::from(after.max().into_scalar::<f32>());
                    let error = (before * factor - after).abs() / after;
                    assert!(error <= CLOSE, "{error:e}, {max_norm:?}");
                }
                Ok(Unscaled::Skip { .. }) => panic!("a static scale skips nothing"),
                Err(_) => assert_eq!(is_finite, 0.0, "{last}"),
            }
        }
    }
}

#[test]
fn the_reason_for_burns_operations_is_that_of_device_and_dtype() {
    let device = Device::flex();
    for device in [device.clone(), device.autodiff()] {
        assert_eq!(norm_reason(&device, DType::F32), None);
        let reason = norm_reason(&device, DType::BF16).expect("a reason");
        assert_eq!(reason, NormReason::Dtype { dtype: DType::BF16 });
        assert!(reason.to_string().contains("BF16"), "{reason}");
    }
}
