//! What is seen of every tensor of a network in f32, and the scheme that follows for each.

use super::float::FloatRun;
use super::fuse::{Step, Work};
use super::model::QuantizeError;
use super::plan::Reason;
use super::quantization::Quantization;
use crate::kernels::Pooling;
use crate::observe::{ObserveError, Observer};
use crate::scheme::{ActivationScheme, SchemeError};

/// Watches every tensor of the steps in f32.
pub(super) fn observe<B: AsRef<[f32]>>(
    input: [usize; 3],
    steps: &[Step],
    batches: impl IntoIterator<Item = B>,
    by: &Quantization,
) -> Result<Vec<Observer>, QuantizeError> {
    let failed = |tensor: usize| {
        move |source| QuantizeError::Observed { layer: name_of(steps, tensor), source }
    };
    let observer = Observer::try_new(by.calibration()).map_err(failed(0))?;
    let mut observers = vec![observer; steps.len() + 1];
    let mut run = FloatRun::new(input, steps);
    let image: usize = input.iter().product();
    for (batch, values) in batches.into_iter().enumerate() {
        let values = values.as_ref();
        if !values.len().is_multiple_of(image) {
            return Err(QuantizeError::BatchLength { batch, image, got: values.len() });
        }
        for values in values.chunks_exact(image) {
            run.run(steps, values);
            for (tensor, observer) in observers.iter_mut().enumerate() {
                observer.observe(&run.tensors[tensor]).map_err(failed(tensor))?;
            }
        }
    }
    if observers[0].count() == 0 { Err(QuantizeError::NoImage) } else { Ok(observers) }
}

/// The scheme of each tensor: what was seen of it, or its input's where a maximum keeps the codes
/// or nothing but zero was seen; and of which layers nothing else was.
pub(super) fn choose_schemes(
    steps: &[Step],
    kept: &[Option<Reason>],
    observers: &[Observer],
) -> Result<(Vec<ActivationScheme>, Vec<bool>), QuantizeError> {
    let failed = |tensor: usize| {
        move |source| QuantizeError::Observed { layer: name_of(steps, tensor), source }
    };
    // Nothing is known of an input that is always zero: its scheme is an error.
    let mut schemes = Vec::with_capacity(observers.len());
    schemes.push(observers[0].scheme().map_err(failed(0))?);
    let mut is_zero = Vec::with_capacity(steps.len());
    for (index, (step, observer)) in steps.iter().zip(&observers[1..]).enumerate() {
        let seen = observer.scheme();
        is_zero.push(matches!(seen, Err(ObserveError::Scheme(SchemeError::OnlyZero { .. }))));
        let is_maximum = matches!(step.work, Work::Pool { pooling: Pooling::Maximum, .. });
        // Of what comes in, zero has an exact code, and the biases of the next layer, counted in
        // this scale, are as fine as those of this one.
        let keeps = is_zero[index] || is_maximum && kept[index].is_none();
        let scheme = if keeps { Ok(schemes[step.inputs[0]]) } else { seen };
        schemes.push(scheme.map_err(failed(index + 1))?);
    }
    Ok((schemes, is_zero))
}

fn name_of(steps: &[Step], tensor: usize) -> String {
    tensor.checked_sub(1).map_or_else(|| "input".to_owned(), |index| steps[index].name.clone())
}
