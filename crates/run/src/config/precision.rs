//! The key `precision`: a policy, or the device's.

use burn::tensor::FloatDType;
use updraft_device::{DeviceSpec, open, probe, select};
use updraft_precision::Policy;

use super::error::ConfigError;
use super::key::Key;
use super::settings::Settings;

pub(super) const PRECISION: Key<String> = Key::new(
    "precision",
    "`f32`, `bf16-products`, `bf16-mixed`, `f16-mixed`, dtypes as `p=f32,c=bf16,o=f32`, or `auto`",
)
.default(r#""f32""#);

const A_POLICY: &str = "`f32`, `bf16-products`, `bf16-mixed`, `f16-mixed`, `bf16`, `auto`, or dtypes \
                        such as `p=f32,c=bf16,o=f32`";

/// A policy, with the reason if it is that of the device.
pub(super) fn read(
    settings: &Settings,
    device: &DeviceSpec,
) -> Result<(Policy, Option<String>), ConfigError> {
    let text = settings.value(&PRECISION)?;
    if text == "auto" {
        let opened = select(device, &probe()).and_then(|selection| open(&selection));
        // A missing device is reported where it is needed.
        let (policy, reason) = match opened {
            Ok(device) => Policy::of_device(&device),
            Err(_) => (Policy::F32, "the device cannot be opened"),
        };
        return Ok((policy, Some(format!("precision {policy}: {reason}"))));
    }
    let policy: Policy = text.parse().map_err(|_| settings.refuse_given("precision", A_POLICY))?;
    if [policy.param, policy.compute, policy.output].contains(&FloatDType::F64) {
        // The data is f32, and operations on two different wide dtypes are not supported.
        return Err(settings.refuse_given("precision", "without f64: data is made in f32"));
    }
    Ok((policy, None))
}
