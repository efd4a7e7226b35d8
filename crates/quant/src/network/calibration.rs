//! The observed range of every tensor of a network in f32, and its scheme.

use super::error::QuantizeError;
use super::float::FloatRun;
use super::fuse::Steps;
use super::graph::Port;
use super::plan::Reason;
use super::quantization::Quantization;
use super::samples::{Samples, SamplesExt};
use crate::observe::{ObserveError, Observer};
use crate::scheme::{ActivationScheme, SchemeError};

/// Observes every tensor of the steps in f32.
pub(super) fn observe<B: Samples>(
    steps: &Steps,
    batches: impl IntoIterator<Item = B>,
    by: &Quantization,
) -> Result<Vec<Observer>, QuantizeError> {
    let failed = |tensor: usize| {
        move |cause| QuantizeError::Observed { layer: name_of(steps, tensor), cause }
    };
    let observer = Observer::try_new(by.calibration()).map_err(failed(0))?;
    let mut run = FloatRun::new(steps);
    let mut observers = vec![observer; run.tensors.len()];
    for (batch, samples) in batches.into_iter().enumerate() {
        let Some(count) = samples.count(&steps.inputs) else {
            let sample = steps.inputs.iter().map(Port::numbers).collect();
            let got = (0..samples.inputs()).map(|input| samples.input(input).len()).collect();
            return Err(QuantizeError::BatchLength { batch, sample, got });
        };
        for sample in 0..count {
            run.run(steps, |input| samples.one(input, steps.inputs[input].numbers(), sample));
            for (tensor, observer) in observers.iter_mut().enumerate() {
                observer.observe(&run.tensors[tensor]).map_err(failed(tensor))?;
            }
        }
    }
    if observers[0].count() == 0 { Err(QuantizeError::NoSample) } else { Ok(observers) }
}

/// The scheme of each tensor: the one that was set, else that of its observed range, or its input's if an operation keeps the
/// codes or only zeros were observed; and the layers with only zeros.
pub(super) fn choose_schemes(
    steps: &Steps,
    kept: &[Option<Reason>],
    observers: &[Observer],
) -> Result<(Vec<ActivationScheme>, Vec<bool>), QuantizeError> {
    let failed = |tensor: usize| {
        move |cause| QuantizeError::Observed { layer: name_of(steps, tensor), cause }
    };
    let (inputs, given) = observers.split_at(steps.inputs.len());
    let mut schemes = Vec::with_capacity(observers.len());
    // An input that is always zero has no scheme: an error.
    for (tensor, observer) in inputs.iter().enumerate() {
        let seen = || observer.scheme().map_err(failed(tensor));
        schemes.push(steps.input_schemes[tensor].map_or_else(seen, Ok)?);
    }
    let mut is_zero = Vec::with_capacity(given.len());
    for (index, (step, observer)) in steps.list.iter().zip(given).enumerate() {
        let seen = observer.scheme();
        is_zero.push(matches!(seen, Err(ObserveError::Scheme(SchemeError::OnlyZero { .. }))));
        // In the scheme of the input, zero has an exact code, and the biases of the next layer,
        // counted in this scale, are as fine as those of this one.
        let is_kept = step.work.operation.keeps_scheme() && kept[index].is_none();
        let scheme = match step.scheme {
            Some(scheme) if !is_kept => Ok(scheme),
            _ if is_zero[index] || is_kept => Ok(schemes[step.inputs[0]]),
            _ => seen,
        };
        schemes.push(scheme.map_err(failed(inputs.len() + index))?);
    }
    Ok((schemes, is_zero))
}

fn name_of(steps: &Steps, tensor: usize) -> String {
    let inputs = steps.inputs.iter().map(|port| &port.name);
    let mut names = inputs.chain(steps.list.iter().map(|step| &step.name));
    names.nth(tensor).cloned().unwrap_or_default()
}
