//! How a graph is to be quantized, and what a model remembers of it.

use super::model::QuantizeError;
use crate::observe::Calibration;

/// How a graph is to be quantized: how ranges are found, and what stays in f32.
///
/// A [`Calibration`] alone is one, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantization {
    calibration: Calibration,
    kept: Vec<String>,
    set_hash: String,
}

impl From<Calibration> for Quantization {
    fn from(calibration: Calibration) -> Self {
        Self { calibration, kept: Vec::new(), set_hash: String::new() }
    }
}

impl Quantization {
    /// Every layer in eight bits that can be.
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

    /// A hash of the calibration set, for the model to remember.
    #[must_use]
    pub fn set_hash(mut self, hash: impl Into<String>) -> Self {
        self.set_hash = hash.into();
        self
    }

    pub(super) const fn calibration(&self) -> Calibration {
        self.calibration
    }

    pub(super) fn calibrated(self, images: u64) -> Calibrated {
        Calibrated { calibration: self.calibration, images, set_hash: self.set_hash }
    }

    /// Whether each step is kept.
    pub(super) fn kept<'a>(
        &self,
        steps: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Vec<bool>, QuantizeError> {
        let is_named =
            |step: &str, name: &String| step == name || step.split('+').any(|part| part == name);
        let unknown = self.kept.iter().find(|name| !steps.clone().any(|step| is_named(step, name)));
        if let Some(layer) = unknown {
            let there = steps.collect::<Vec<_>>().join(", ");
            return Err(QuantizeError::NoSuchLayer { layer: layer.clone(), there });
        }
        Ok(steps.map(|step| self.kept.iter().any(|name| is_named(step, name))).collect())
    }
}

/// What a model was calibrated on, and how.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Calibrated {
    /// How ranges followed from what was seen.
    pub calibration: Calibration,
    /// Images seen.
    pub images: u64,
    /// The caller's hash of them; empty if none was given.
    pub set_hash: String,
}
