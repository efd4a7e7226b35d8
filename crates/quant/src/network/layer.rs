//! One layer of a quantized model.

use std::sync::Arc;

use super::fuse::Step;
use super::plan::{Arithmetic, Reason};
use crate::operation::{Around, Kernel, LazyFloatKernel, Operation, PackError, Parameters, Shapes};
use crate::scheme::{ActivationScheme, OutputScheme};
use crate::weights::{Coding, QuantizedWeights, WeightError, WeightFormat};

/// A packed step of the model.
#[derive(Debug, Clone)]
pub(super) struct QuantizedLayer {
    pub(super) name: String,
    pub(super) operation: Arc<dyn Operation>,
    pub(super) form: Form,
    pub(super) inputs: Vec<usize>,
    pub(super) shapes: Shapes,
    pub(super) multiply_adds: usize,
    pub(super) is_rectified: bool,
    /// Whether its output was zero for every calibration sample.
    pub(super) is_zero: bool,
}

/// The arithmetic of a layer, with the only copy of its parameters.
#[derive(Debug, Clone)]
pub(super) enum Form {
    Int8 {
        kernel: Arc<dyn Kernel>,
        /// How a file stores its weights, if in fewer than eight bits.
        coding: Option<Arc<Coding>>,
    },
    F32 {
        parameters: Arc<Parameters>,
        /// The same, packed.
        packed: Arc<LazyFloatKernel>,
        reason: Reason,
    },
}

impl Form {
    /// A layer in f32.
    pub(super) fn in_f32(parameters: Arc<Parameters>, reason: Reason) -> Self {
        Self::F32 { parameters, packed: Arc::default(), reason }
    }

    /// Packs a step with its quantized parameters; a step without an int8 kernel stays in f32.
    pub(super) fn try_new(
        step: &Step,
        kept: Option<Reason>,
        weights: Result<Option<Chosen>, WeightError>,
        x: &[ActivationScheme],
        y: ActivationScheme,
    ) -> Result<Self, PackError> {
        let Step { work, is_rectified, shapes, .. } = step;
        let packed = || {
            let (weights, coding) = match weights? {
                Some(Chosen { weights, coding }) => (Some(weights), coding.map(Arc::new)),
                None => (None, None),
            };
            let y = bounded(y, *is_rectified);
            let around = Around { weights: weights.as_ref(), shapes, x, y };
            let kernel = work.operation.pack(&around)?;
            Ok(kernel.map(|kernel| Self::Int8 { kernel, coding }))
        };
        let reason = match kept.map_or_else(packed, |_| Ok(None)) {
            Ok(Some(form)) => return Ok(form),
            Ok(None) => kept.unwrap_or(Reason::NoInt8Form),
            Err(PackError::Weights(WeightError::Overflow { channel, sum })) => {
                Reason::Overflow { channel, sum }
            }
            Err(error) => return Err(error),
        };
        Ok(Self::in_f32(work.parameters.clone(), reason))
    }
}

/// The integer weights of a layer.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) weights: QuantizedWeights,
    pub(super) coding: Option<Coding>,
}

/// The output scheme of a layer's codes: a rectifier is a bound.
pub(super) const fn bounded(scheme: ActivationScheme, is_rectified: bool) -> OutputScheme {
    if is_rectified { OutputScheme::rectified(scheme) } else { OutputScheme::new(scheme) }
}

impl QuantizedLayer {
    pub(super) fn weight_bytes(&self) -> usize {
        match &self.form {
            Form::Int8 { kernel, .. } => kernel.bytes(),
            Form::F32 { parameters, .. } => parameters.bytes(),
        }
    }

    /// Bytes of its parameters in a file.
    pub(super) fn file_bytes(&self) -> usize {
        match &self.form {
            Form::Int8 { kernel, .. } => kernel.weights().map_or(0, |weights| {
                let format = self.format().unwrap_or_default();
                format.bytes(weights.channels(), weights.each())
            }),
            Form::F32 { parameters, .. } => parameters.bytes(),
        }
    }

    /// The format of its integer weights, if it has any.
    pub(super) fn format(&self) -> Option<WeightFormat> {
        match &self.form {
            Form::Int8 { coding: Some(coding), .. } => Some(coding.format),
            Form::Int8 { kernel, .. } => kernel.has_weights().then_some(WeightFormat::INT8),
            Form::F32 { .. } => None,
        }
    }

    pub(super) const fn arithmetic(&self) -> Arithmetic {
        match &self.form {
            Form::Int8 { .. } => Arithmetic::Int8,
            Form::F32 { reason, .. } => Arithmetic::F32(*reason),
        }
    }

    pub(super) const fn is_float(&self) -> bool {
        matches!(self.form, Form::F32 { .. })
    }
}
