//! The settings of a quantization, and the part that a model stores.

use serde::{Deserialize, Serialize};

use super::error::QuantizeError;
use super::fuse::{Step, Steps};
use super::plan::Reason;
use crate::observe::Calibration;

/// Layers that an error lists.
const MOST_LISTED: usize = 12;

/// A tail in f32 is at most this fraction of the work.
const LEAST_WORK: usize = 100;

/// The settings of a quantization: the calibration method, and the layers that stay in f32.
///
/// A [`Calibration`] converts to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantization {
    calibration: Calibration,
    kept: Vec<String>,
    has_float_tail: bool,
    has_separate_sums: bool,
    set_hash: String,
}

impl From<Calibration> for Quantization {
    fn from(calibration: Calibration) -> Self {
        Self {
            calibration,
            kept: Vec::new(),
            has_float_tail: false,
            has_separate_sums: false,
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

    /// A hash of the calibration set, stored in the model.
    #[must_use]
    pub fn set_hash(mut self, hash: impl Into<String>) -> Self {
        self.set_hash = hash.into();
        self
    }

    pub(super) const fn calibration(&self) -> Calibration {
        self.calibration
    }

    pub(super) const fn joins_sums(&self) -> bool {
        !self.has_separate_sums
    }

    pub(super) fn calibrated(self, samples: u64) -> Calibrated {
        Calibrated { calibration: self.calibration, samples, set_hash: self.set_hash }
    }

    /// The reason for each step that is kept in f32.
    pub(super) fn kept(&self, steps: &Steps) -> Result<Vec<Option<Reason>>, QuantizeError> {
        let is_named = |step: &Step, name: &String| {
            step.name == *name || step.name.split('+').any(|part| part == name)
        };
        let unknown =
            self.kept.iter().find(|name| !steps.list.iter().any(|step| is_named(step, name)));
        if let Some(layer) = unknown {
            let names: Vec<_> = steps.list.iter().map(|step| step.name.as_str()).collect();
            let mut there = names[..names.len().min(MOST_LISTED)].join(", ");
            if let Some(more) = names.len().checked_sub(MOST_LISTED).filter(|more| *more > 0) {
                there += &format!(" and {more} more");
            }
            return Err(QuantizeError::NoSuchLayer { layer: layer.clone(), there });
        }
        let is_tail = if self.has_float_tail { tail(steps) } else { vec![false; steps.list.len()] };
        let reason = |(step, is_tail): (&Step, bool)| {
            let is_named = self.kept.iter().any(|name| is_named(step, name));
            is_named.then_some(Reason::Kept).or_else(|| is_tail.then_some(Reason::Tail))
        };
        Ok(steps.list.iter().zip(is_tail).map(reason).collect())
    }
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
