//! Updates that the device decides about, beside the same decided by the host.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::optim::{Optimizer, RecordState, StateSink};
use burn::tensor::{DType, Device, FloatDType, Tensor};
use updraft_optim::{
    AdamW, DeviceControl, PlainReason, Sgd, controlled, plain_reason, takes_control,
};

use crate::sgd::SETTINGS;
use crate::{RATE, bits, ours, sgd, tensor};

/// The factor of an update, whether it is applied, and whether the second parameter takes part.
const UPDATES: [(f32, bool, bool); 14] = [
    (0.25, false, false),
    (0.25, false, false),
    (1.0, true, false),
    (0.37, true, false),
    (1.0 / 1024.0, true, true),
    (3.0, false, true),
    (0.1, true, true),
    (0.9, true, false),
    (0.9, false, false),
    (1.0, true, false),
    (0.7, true, true),
    (0.6, false, true),
    (0.5, false, true),
    (0.4, true, true),
];

pub(crate) fn control(
    factor: f32,
    is_applied: bool,
    applied: f32,
    device: &Device,
) -> DeviceControl {
    let number = |number: f32| Tensor::from_floats([number], device);
    DeviceControl {
        factor: number(factor),
        is_applied: number(f32::from(u8::from(is_applied))),
        applied: number(applied),
    }
}

/// The state as a record has it.
fn recorded<S: RecordState>(state: &S) -> (Vec<(String, Vec<u64>)>, String) {
    let mut sink = StateSink::default();
    state.state_flatten("p", &mut sink);
    let tensors = sink
        .tensors
        .into_iter()
        .map(|(name, data)| (name, data.iter::<f64>().map(f64::to_bits).collect()));
    (tensors.collect(), format!("{:?}", sink.scalars))
}

fn check<O: Optimizer, const D: usize>(
    optimizer: &O,
    shape: [usize; D],
    dtype: FloatDType,
    what: &str,
) {
    let device = Device::flex();
    let tensor = |seed| tensor::<D>(seed, shape, &device).cast(dtype);
    let start = || [1, 2].map(|seed| (tensor(seed), None::<O::State<D>>));
    let (mut by_host, mut by_device) = (start(), start());
    // The control counts from elsewhere.
    let mut applied = 5.0;
    for (update, (factor, is_applied, is_both)) in (0..).zip(UPDATES) {
        let control = control(factor, is_applied, applied, &device);
        applied += f32::from(u8::from(is_applied));
        for which in 0..1 + usize::from(is_both) {
            let gradient = || tensor(10 + 2 * update + which as u32);
            let (parameter, state) = by_device[which].clone();
            by_device[which] =
                controlled(&control, || optimizer.step(RATE, parameter, gradient(), state));
            if is_applied {
                let (parameter, state) = by_host[which].clone();
                let gradient = gradient().mul_scalar(factor);
                by_host[which] = optimizer.step(RATE, parameter, gradient, state);
            }
            let [host, found] = [&by_host, &by_device].map(|all| all[which].0.to_data());
            assert_eq!(host, found, "{what}, update {update}, parameter {which}");
            if let (Some(host), Some(found)) = (&by_host[which].1, &by_device[which].1) {
                assert_eq!(recorded(host), recorded(found), "{what}, update {update}");
            }
        }
    }
    // The host decides again.
    for ((parameter, state), (other, of_other)) in by_host.into_iter().zip(by_device) {
        let (host, _) = optimizer.step(RATE, parameter, tensor(3), state);
        let (found, _) = optimizer.step(RATE, other, tensor(3), of_other);
        assert_eq!(host.to_data(), found.to_data(), "{what}, without a control");
    }
}

#[test]
fn decisions_of_the_device_have_the_bits_of_those_of_the_host() {
    for dtype in [FloatDType::F32, FloatDType::F64] {
        for decay in [0.0, 0.01] {
            let what = format!("AdamW, decay {decay}, {dtype:?}");
            check(&ours(decay), [7], dtype, &what);
            check(&ours(decay).with_betas([0.8, 0.95]), [3, 5], dtype, &what);
            check(&ours(decay), [2, 3, 2, 2], dtype, &what);
        }
        for setting in SETTINGS {
            let what = format!("Sgd {setting:?}, {dtype:?}");
            check(&sgd::ours(setting), [7], dtype, &what);
            check(&sgd::ours(setting), [3, 2, 4], dtype, &what);
        }
    }
}

#[test]
fn a_skipped_update_changes_no_bit_whatever_the_gradient() {
    let device = Device::flex();
    let skip = control(f32::MAX, false, 3.0, &device);
    let gradient = || Tensor::<1>::from_floats([f32::NAN, f32::INFINITY, 1e30, 0.0], &device);
    let start = || Tensor::<1>::from_floats([1.0, -0.0, f32::NAN, f32::INFINITY], &device);
    let before = bits(start().to_data());
    let (after, state) = ours(0.1).step(RATE, start(), tensor(1, [4], &device), None);
    let expected = (bits(after.to_data()), recorded(state.as_ref().expect("a state")));
    let (after, state) = controlled(&skip, || ours(0.1).step(RATE, after, gradient(), state));
    assert_eq!((bits(after.to_data()), recorded(&state.expect("a state"))), expected);
    let sgd = Sgd::new().with_momentum(0.9).with_weight_decay(0.1);
    let (after, state) = controlled(&skip, || sgd.step(RATE, start(), gradient(), None));
    assert_eq!(bits(after.to_data()), before);
    let velocity = state.and_then(|state| state.velocity).expect("momentum keeps one");
    assert_eq!(bits(velocity.to_data()), [0; 4]);
}

#[test]
fn a_control_holds_within_its_call_only() {
    let device = Device::flex();
    let (skip, apply) = (control(1.0, false, 0.0, &device), control(1.0, true, 0.0, &device));
    let before = bits(tensor::<1>(1, [5], &device).to_data());
    let is_applied = || {
        let (start, gradient) = (tensor::<1>(1, [5], &device), tensor(2, [5], &device));
        let (after, _) = AdamW::new().step(RATE, start, gradient, None);
        bits(after.to_data()) != before
    };
    assert!(is_applied());
    controlled(&skip, || {
        assert!(!is_applied());
        assert!(controlled(&apply, is_applied), "the inner one holds");
        assert!(!is_applied(), "the outer one holds again");
        std::thread::scope(|threads| {
            let other = threads.spawn(is_applied).join();
            assert!(other.expect("it has no control"), "the control of another thread");
        });
    });
    let planted = || assert!(takes_control(&device), "planted");
    let panic = catch_unwind(AssertUnwindSafe(|| controlled(&skip, planted)));
    assert!(panic.is_err());
    assert!(is_applied(), "a panic ends it");
}

#[test]
fn a_device_without_our_kernels_for_gpus_is_left_to_the_host() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        assert!(!takes_control(&device));
        assert_eq!(plain_reason(&device, DType::F32), None);
        let reason = plain_reason(&device, DType::F64).expect("a reason");
        assert_eq!(reason, PlainReason::Dtype { dtype: DType::F64 });
        assert!(reason.to_string().contains("F64"), "{reason}");
    }
}
