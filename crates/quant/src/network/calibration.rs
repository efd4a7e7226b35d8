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

/// The samples that are kept for the rounding of weights, and the most bytes of them.
const KEPT: usize = 128;
const MOST_KEPT_BYTES: usize = 64 << 20;

/// Observes every tensor of the steps in f32, cut to its live range, and keeps some samples, input by
/// input, if the settings need them.
///
/// The numbers before a rectifier that is cut at 6 need no codes below 0 and above 6.
pub(super) fn observe<B: Samples>(
    steps: &Steps,
    batches: impl IntoIterator<Item = B>,
    by: &Quantization,
) -> Result<(Vec<Observer>, Vec<Vec<f32>>), QuantizeError> {
    let failed = |tensor: usize| {
        move |cause| QuantizeError::Observed { layer: name_of(steps, tensor), cause }
    };
    let observer = Observer::try_new(by.calibration()).map_err(failed(0))?;
    let mut run = FloatRun::new(steps);
    let mut observers = vec![observer; run.tensors.len()];
    let mut kept = by.needs_samples().then(|| Reservoir::new(&steps.inputs));
    let ranges = steps.live_ranges();
    let mut cut = Vec::new();
    visit(steps, batches, |x| {
        run.run(steps, x);
        if let Some(kept) = &mut kept {
            kept.add(x);
        }
        for (tensor, observer) in observers.iter_mut().enumerate() {
            let numbers = &run.tensors[tensor];
            let layer = tensor.checked_sub(steps.inputs.len());
            let is_in_burn = layer.is_some_and(|at| steps.list[at].work.operation.is_in_burn());
            let [low, high] = ranges[tensor];
            let is_cut = low.is_finite() || high.is_finite();
            let observed = if is_in_burn || is_cut && numbers.iter().all(|x| !x.is_infinite()) {
                // Infinite numbers, such as masked scores, become the outermost codes.
                let is_seen = |number: &f32| !(is_in_burn && number.is_infinite());
                cut.clear();
                cut.extend(numbers.iter().map(|number| number.clamp(low, high)).filter(is_seen));
                observer.observe(&cut)
            } else {
                observer.observe(numbers)
            };
            observed.map_err(failed(tensor))?;
        }
        Ok(())
    })?;
    Ok((observers, kept.map_or_else(Vec::new, |kept| kept.samples)))
}

/// Passes the inputs of each sample to a closure.
pub(super) fn visit<B: Samples>(
    steps: &Steps,
    batches: impl IntoIterator<Item = B>,
    mut one: impl for<'a> FnMut(&(dyn Fn(usize) -> &'a [f32] + 'a)) -> Result<(), QuantizeError>,
) -> Result<(), QuantizeError> {
    let mut is_empty = true;
    for (batch, samples) in batches.into_iter().enumerate() {
        let Some(count) = samples.count(&steps.inputs) else {
            let sample = steps.inputs.iter().map(Port::numbers).collect();
            let got = (0..samples.inputs()).map(|input| samples.input(input).len()).collect();
            return Err(QuantizeError::BatchLength { batch, sample, got });
        };
        for sample in 0..count {
            one(&|input| samples.one(input, steps.inputs[input].numbers(), sample))?;
            is_empty = false;
        }
    }
    if is_empty { Err(QuantizeError::NoSample) } else { Ok(()) }
}

/// A uniform choice of samples from a stream, the same for the same stream.
///
/// # Source
/// Vitter 1985, Algorithm R.
struct Reservoir {
    samples: Vec<Vec<f32>>,
    most: u64,
    seen: u64,
    state: u64,
}

impl Reservoir {
    fn new(inputs: &[Port]) -> Self {
        let bytes: usize = inputs.iter().map(|port| size_of::<f32>() * port.numbers()).sum();
        let most = (MOST_KEPT_BYTES / bytes.max(1)).clamp(1, KEPT) as u64;
        Self { samples: vec![Vec::new(); inputs.len()], most, seen: 0, state: 1 }
    }

    fn add<'a>(&mut self, x: impl Fn(usize) -> &'a [f32]) {
        self.seen += 1;
        if self.seen <= self.most {
            for (input, kept) in self.samples.iter_mut().enumerate() {
                kept.extend_from_slice(x(input));
            }
            return;
        }
        // The generator of Knuth's MMIX.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = (self.state >> 33) % self.seen;
        if place < self.most {
            for (input, kept) in self.samples.iter_mut().enumerate() {
                let x = x(input);
                kept[place as usize * x.len()..][..x.len()].copy_from_slice(x);
            }
        }
    }
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
