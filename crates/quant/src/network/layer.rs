//! One layer of a quantized model.

use std::sync::Arc;

use super::fuse::Step;
use super::plan::{Arithmetic, Reason};
use crate::operation::{Around, Kernel, Operation, PackError, Parameters, Shapes};
use crate::scheme::{ActivationScheme, OutputScheme};
use crate::weights::{QuantizedWeights, WeightError};

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
    Int8(Arc<dyn Kernel>),
    F32 { parameters: Arc<Parameters>, reason: Reason },
}

impl Form {
    /// Quantizes the parameters of a step and packs them; a step without an int8 kernel
    /// stays in f32.
    pub(super) fn try_new(
        step: &Step,
        kept: Option<Reason>,
        x: &[ActivationScheme],
        y: ActivationScheme,
    ) -> Result<Self, PackError> {
        let Step { work, is_rectified, shapes, .. } = step;
        let Parameters { weights, bias } = work.parameters.as_ref();
        let packed = || {
            let quantized = (!weights.is_empty())
                .then(|| QuantizedWeights::try_quantize(weights, Some(bias), bias.len(), x[0]));
            let quantized = quantized.transpose()?;
            let y = bounded(y, *is_rectified);
            work.operation.pack(&Around { weights: quantized.as_ref(), shapes, x, y })
        };
        let reason = match kept.map_or_else(packed, |_| Ok(None)) {
            Ok(Some(kernel)) => return Ok(Self::Int8(kernel)),
            Ok(None) => kept.unwrap_or(Reason::NoInt8Form),
            Err(PackError::Weights(WeightError::Overflow { channel, sum })) => {
                Reason::Overflow { channel, sum }
            }
            Err(error) => return Err(error),
        };
        Ok(Self::F32 { parameters: work.parameters.clone(), reason })
    }
}

/// The output scheme of a layer's codes: a rectifier is a bound.
pub(super) const fn bounded(scheme: ActivationScheme, is_rectified: bool) -> OutputScheme {
    if is_rectified { OutputScheme::rectified(scheme) } else { OutputScheme::new(scheme) }
}

impl QuantizedLayer {
    pub(super) fn weight_bytes(&self) -> usize {
        match &self.form {
            Form::Int8(kernel) => kernel.bytes(),
            Form::F32 { parameters, .. } => parameters.bytes(),
        }
    }

    pub(super) const fn arithmetic(&self) -> Arithmetic {
        match &self.form {
            Form::Int8(_) => Arithmetic::Int8,
            Form::F32 { reason, .. } => Arithmetic::F32(*reason),
        }
    }

    pub(super) const fn is_float(&self) -> bool {
        matches!(self.form, Form::F32 { .. })
    }
}
