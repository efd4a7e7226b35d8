//! The loss scale on the device follows the rules of the one on the host.

use burn::tensor::{DType, Device};
use proptest::prelude::*;
use updraft_precision::{DeviceLossScale, DynamicScale, LossScale, LossScaler};

use crate::device_norm::number;

/// Follows steps on the device and on the host, and compares the scales after each.
pub(crate) fn check(device: &Device, settings: DynamicScale, are_finite: &[bool]) {
    let host = LossScale::Dynamic(settings);
    let mut scaler = LossScaler::try_new(host).expect("valid");
    let mut scale = DeviceLossScale::new(scaler.state(), device);
    for (step, &is_finite) in are_finite.iter().enumerate() {
        scale = scale.update(&number(f32::from(u8::from(is_finite)), device), &settings);
        assert!(scaler.follow(is_finite), "step {step}");
        let DeviceLossScale { scale, good_steps } = &scale;
        assert_eq!(scale.dtype(), DType::F32);
        let found = [scale, good_steps].map(|it| it.clone().into_scalar::<f32>());
        let expected = [scaler.scale() as f32, scaler.state().good_steps as f32];
        assert_eq!(found, expected, "step {step}, {settings:?}");
    }
}

#[test]
fn growth_backoff_and_bounds_are_those_of_the_host() {
    let settings = DynamicScale {
        initial: 4.0,
        growth: 4.0,
        backoff: 0.25,
        interval: 2,
        floor: 2.0,
        ceiling: 32.0,
        ..DynamicScale::default()
    };
    let steps = [true, true, true, true, true, true, false, false, false, false, true, true, false];
    check(&Device::flex(), settings, &steps);
}

proptest! {
    #[test]
    fn random_overflows_give_the_scales_of_the_host(
        are_finite in proptest::collection::vec(proptest::bool::weighted(0.8), 1..60),
        interval in 1..6_u64,
    ) {
        let bounds = DynamicScale { floor: 256.0, longest_skips: u64::MAX, ..Default::default() };
        check(&Device::flex(), DynamicScale { interval, ..bounds }, &are_finite);
    }
}
