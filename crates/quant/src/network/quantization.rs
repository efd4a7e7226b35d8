//! The settings of a quantization, and the part that a model stores.

use serde::{Deserialize, Serialize};

use super::error::QuantizeError;
use super::fuse::{Step, Steps};
use super::plan::Reason;
use super::rounding::Rounding;
use crate::Graph;
use crate::observe::Calibration;
use crate::operation::Parameters;
use crate::weights::{WeightFormat, are_multiples};

/// Layers that an error lists.
const MOST_LISTED: usize = 12;

/// A tail in f32 is at most this fraction of the work.
const LEAST_WORK: usize = 100;

/// The settings of a quantization: the calibration method, the layers that stay in f32, and the
/// formats and the rounding of weights.
///
/// A [`Calibration`] converts to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantization {
    calibration: Calibration,
    kept: Vec<String>,
    has_float_tail: bool,
    has_separate_sums: bool,
    has_float_activations: bool,
    weights: Option<WeightFormat>,
    /// Layers with a format of their own.
    formats: Vec<(String, WeightFormat)>,
    rounding: Rounding,
    has_bias_correction: bool,
    set_hash: String,
}

impl From<Calibration> for Quantization {
    fn from(calibration: Calibration) -> Self {
        Self {
            calibration,
            kept: Vec::new(),
            has_float_tail: false,
            has_separate_sums: false,
            has_float_activations: false,
            weights: None,
            formats: Vec::new(),
            rounding: Rounding::Nearest,
            has_bias_correction: false,
            set_hash: String::new(),
        }
    }
}

impl Quantization {
    /// int8 for every layer that has a kernel.
    #[must_use]
    pub fn new(calibration: Calibration) -> Self {
        calibration.into()
    }

    /// Layers to keep in f32, by the names of a plan or of the graph; `conv` names the step
    /// `conv+norm+relu`, too.
    #[must_use]
    pub fn keep(mut self, layers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.kept.extend(layers.into_iter().map(Into::into));
        self
    }

    /// Keeps in f32 the means over whole images and the layers that depend only on them, up to the
    /// outputs, if that is at most a hundredth of all multiply-adds: int8 for a few numbers that
    /// represent all pixels costs accuracy and saves little time.
    #[must_use]
    pub const fn float_tail(mut self) -> Self {
        self.has_float_tail = true;
        self
    }

    /// Rounds both summands of a residual sum to int8 before they are added.
    ///
    /// Otherwise a convolution adds the other summand itself and rounds once, which loses less. The
    /// integer kernels of other runtimes need codes after every convolution: this is for
    /// [`to_onnx`](crate::QuantizedModel::to_onnx).
    #[must_use]
    pub const fn separate_sums(mut self) -> Self {
        self.has_separate_sums = true;
        self
    }

    /// Quantizes weights alone: tensors between layers stay in f32, and so do their sums.
    ///
    /// The outputs have no noise of rounded activations, and take the time of f32, except for large
    /// [`linear`](Graph::linear) layers whose weights have four bits: those stay in four bits until
    /// they are multiplied, which is faster for one sample and slower for four and more
    /// ([`FourBitLinear`](crate::slices::FourBitLinear)). All other weights become f32 at the first
    /// run. Bytes of the file are the same as with activations of eight bits.
    #[must_use]
    pub const fn weights_only(mut self) -> Self {
        self.has_float_activations = true;
        self
    }

    /// The format of all weights that have no other.
    ///
    /// The default is [`WeightFormat::INT8`], and four bits for layers of a graph with schemes whose
    /// weights are multiples of a step with codes of four bits.
    #[must_use]
    pub const fn weights(mut self, format: WeightFormat) -> Self {
        self.weights = Some(format);
        self
    }

    /// The format of one layer's weights, by the names that [`keep`](Self::keep) accepts. The layer
    /// is then quantized also in a tail that [`float_tail`](Self::float_tail) keeps in f32.
    ///
    /// The full name `conv+norm+relu` has priority over `conv`, in any order. A second call with the
    /// same name replaces the first.
    #[must_use]
    pub fn layer(mut self, name: impl Into<String>, format: WeightFormat) -> Self {
        let name = name.into();
        self.formats.retain(|(other, _)| *other != name);
        self.formats.push((name, format));
        self
    }

    /// How weights are rounded; the default is [`Rounding::Nearest`].
    #[must_use]
    pub const fn rounding(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// Adds to each bias the mean difference between the layer's result in f32 and in int8, over
    /// calibration samples and layer by layer, so that rounded weights shift no channel.
    ///
    /// # Source
    /// Empirical bias correction: Nagel et al. 2019, arXiv:1906.04721, appendix D.
    #[must_use]
    pub const fn bias_correction(mut self) -> Self {
        self.has_bias_correction = true;
        self
    }

    /// A hash of the calibration set, stored in the model.
    #[must_use]
    pub fn set_hash(mut self, hash: impl Into<String>) -> Self {
        self.set_hash = hash.into();
        self
    }

    pub(super) const fn calibration(&self) -> Calibration {
        self.calibration
    }

    pub(super) const fn chosen_rounding(&self) -> Rounding {
        self.rounding
    }

    /// Whether the results of layers on samples decide their parameters.
    pub(super) fn needs_samples(&self) -> bool {
        self.has_bias_correction || self.rounding != Rounding::Nearest
    }

    pub(super) const fn corrects_bias(&self) -> bool {
        self.has_bias_correction
    }

    pub(super) const fn rounds_activations(&self) -> bool {
        !self.has_float_activations
    }

    pub(super) const fn joins_sums(&self) -> bool {
        !self.has_separate_sums
    }

    pub(super) fn calibrated(&self, samples: u64) -> Calibrated {
        let set_hash = self.set_hash.clone();
        Calibrated { calibration: self.calibration, samples, set_hash }
    }

    /// Checks that the layers that are named exist, and have weights if they are given a format.
    ///
    /// # Errors
    /// [`QuantizeError::NoSuchLayer`], [`QuantizeError::KeptAndQuantized`],
    /// [`QuantizeError::NoWeights`] or [`QuantizeError::TwoFormats`].
    pub fn check(&self, graph: &Graph) -> Result<(), QuantizeError> {
        self.kept(&Steps::new(graph, self.joins_sums())).map(drop)
    }

    /// The reason for each step that is kept in f32.
    pub(super) fn kept(&self, steps: &Steps) -> Result<Vec<Option<Reason>>, QuantizeError> {
        let formats = self.formats.iter().map(|(name, _)| name);
        for name in self.kept.iter().chain(formats) {
            if !steps.list.iter().any(|step| step.is_named(name)) {
                return Err(no_such_layer(steps, name));
            }
        }
        for (name, _) in &self.formats {
            let mut named = steps.list.iter().filter(|step| step.is_named(name));
            if named.clone().any(|step| self.is_kept(step)) {
                return Err(QuantizeError::KeptAndQuantized { layer: name.clone() });
            }
            if !named.any(Step::has_weights) {
                return Err(QuantizeError::NoWeights { layer: name.clone() });
            }
        }
        steps.list.iter().try_for_each(|step| self.refuse_two_formats(step))?;
        let is_tail = if self.has_float_tail { tail(steps) } else { vec![false; steps.list.len()] };
        let reason = |(step, is_tail): (&Step, bool)| {
            let is_kept = self.is_kept(step);
            let is_quantized = self.formats.iter().any(|(name, _)| step.is_named(name));
            let of_tail = is_tail && !is_quantized;
            is_kept.then_some(Reason::Kept).or_else(|| of_tail.then_some(Reason::Tail))
        };
        Ok(steps.list.iter().zip(is_tail).map(reason).collect())
    }

    /// Whether a step is kept in f32 by its name.
    pub(super) fn is_kept(&self, step: &Step) -> bool {
        self.kept.iter().any(|name| step.is_named(name))
    }

    /// The formats that are given to a step by its full name, or without one by parts of it.
    fn given<'a>(&'a self, step: &'a Step) -> impl Iterator<Item = &'a (String, WeightFormat)> {
        let is_full = self.formats.iter().any(|(name, _)| step.name == *name);
        let is_meant =
            move |name: &str| if is_full { step.name == name } else { step.is_named(name) };
        self.formats.iter().filter(move |(name, _)| is_meant(name))
    }

    /// Returns an error for a step to which two parts of its name give different formats.
    fn refuse_two_formats(&self, step: &Step) -> Result<(), QuantizeError> {
        let Some((first, format)) = self.given(step).next() else { return Ok(()) };
        match self.given(step).find(|(_, other)| other != format) {
            None => Ok(()),
            Some((second, _)) => Err(QuantizeError::TwoFormats {
                layer: step.name.clone(),
                first: first.clone(),
                second: second.clone(),
            }),
        }
    }

    /// The format of a step's weights.
    ///
    /// Without one, weights of a network that has learnt to round, as `has_schemes` says of it, have
    /// four bits if each channel has a step with codes of four bits: the weights stay the same. A
    /// channel is a group, so that biases are counted in a fraction of its step.
    pub(super) fn format(&self, step: &Step, has_schemes: bool) -> WeightFormat {
        if let Some(format) = self.given(step).next().map(|(_, format)| *format).or(self.weights) {
            return format;
        }
        let Parameters { weights, bias } = step.work.parameters.as_ref();
        let few = WeightFormat::INT4;
        if !has_schemes || !are_multiples(weights, bias.len(), few) {
            return WeightFormat::INT8;
        }
        let each = u32::try_from(weights.len() / bias.len());
        let grouped = each.ok().and_then(|each| few.try_groups_of(each).ok());
        grouped.unwrap_or(WeightFormat::INT8)
    }
}

fn no_such_layer(steps: &Steps, name: &str) -> QuantizeError {
    let mut names: Vec<_> = steps.list.iter().map(|step| step.name.as_str()).collect();
    // Those that begin alike come first.
    let alike = |other: &str| name.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    names.sort_by_key(|other| std::cmp::Reverse(alike(other)));
    let mut there = names[..names.len().min(MOST_LISTED)].join(", ");
    if let Some(more) = names.len().checked_sub(MOST_LISTED).filter(|more| *more > 0) {
        there += &format!(" and {more} more");
    }
    QuantizeError::NoSuchLayer { layer: name.to_owned(), there }
}

/// The steps that are means over whole images or depend only on them: none if that
/// is more than a hundredth of the work.
fn tail(steps: &Steps) -> Vec<bool> {
    let is_pixel = |shape: &[usize]| shape[1..].iter().all(|&side| side == 1);
    let of = |tensor: usize| tensor.checked_sub(steps.inputs.len());
    let mut is_tail = Vec::with_capacity(steps.list.len());
    for Step { work, inputs, shapes, .. } in &steps.list {
        let is_mean = work.operation.is_mean_of_image(shapes) && !is_pixel(&shapes.x[0]);
        let is_of_tail = inputs.iter().all(|&input| of(input).is_some_and(|step| is_tail[step]));
        is_tail.push(is_pixel(&shapes.y) && (is_mean || is_of_tail));
    }
    // An input of an int8 layer is not the end of the network, such as channel weights.
    for index in (0..is_tail.len()).rev() {
        if !is_tail[index] {
            for step in steps.list[index].inputs.iter().filter_map(|&input| of(input)) {
                is_tail[step] = false;
            }
        }
    }
    let sum = |of_tail: bool| -> usize {
        let steps = steps.list.iter().zip(&is_tail).filter(|(_, is_tail)| **is_tail || !of_tail);
        steps.map(|(step, _)| step.multiply_adds()).sum()
    };
    if sum(true) * LEAST_WORK > sum(false) {
        is_tail.fill(false);
    }
    is_tail
}

/// The calibration of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Calibrated {
    /// The calibration method.
    pub calibration: Calibration,
    /// The number of samples.
    pub samples: u64,
    /// The caller's hash of them; empty if none was given.
    pub set_hash: String,
}
