//! One layer of a quantized model.

use std::sync::Arc;

use super::fuse::Step;
use super::plan::{Arithmetic, Reason};
use crate::clip::Clip;
use crate::operation::{Around, Kernel, LazyFloatKernel, Operation, PackError, Parameters, Shapes};
use crate::scheme::ActivationScheme;
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
    /// The limits of its output.
    pub(super) clip: Clip,
    /// Whether its output was zero for every calibration sample.
    pub(super) is_zero: bool,
}

/// The arithmetic of a layer, with the only copy of its parameters.
#[derive(Debug, Clone)]
pub(super) enum Form {
    Int8(Int8Form),
    F32 {
        parameters: Arc<Parameters>,
        /// The same, packed.
        packed: Arc<LazyFloatKernel>,
        reason: Reason,
        /// The int8 form of a layer that runs in f32 on this processor because it is faster.
        int8: Option<Int8Form>,
    },
}

/// A kernel in int8.
#[derive(Debug, Clone)]
pub(super) struct Int8Form {
    pub(super) kernel: Arc<dyn Kernel>,
    /// How a file stores its weights, if in fewer than eight bits.
    pub(super) coding: Option<Arc<Coding>>,
}

impl Int8Form {
    /// Its weights and biases in f32, each exactly the number that the integers stand for, rounded
    /// once.
    fn parameters(&self) -> Parameters {
        let Some(weights) = self.kernel.weights() else { return Parameters::default() };
        let (each, input) = (weights.each(), f64::from(weights.input().scale()));
        let real = |(scale, values): (&f32, &[i8])| {
            let scale = *scale;
            values.iter().map(|&value| f32::from(value) * scale).collect::<Vec<_>>()
        };
        let channels = weights.scales().iter().zip(weights.values().chunks_exact(each));
        let bias = weights.bias().iter().zip(weights.scales());
        Parameters {
            weights: channels.flat_map(real).collect(),
            bias: bias
                .map(|(&bias, &scale)| (f64::from(bias) * f64::from(scale) * input) as f32)
                .collect(),
        }
    }
}

impl Form {
    /// A layer in f32.
    pub(super) fn in_f32(parameters: Arc<Parameters>, reason: Reason) -> Self {
        Self::F32 { parameters, packed: Arc::default(), reason, int8: None }
    }

    /// The int8 form, also of a layer that runs in f32 because it is faster.
    pub(super) const fn int8(&self) -> Option<&Int8Form> {
        match self {
            Self::Int8(form) => Some(form),
            Self::F32 { int8, .. } => int8.as_ref(),
        }
    }

    /// The same layer in f32 because it is faster there, or in int8; one without an int8 form does
    /// not change.
    pub(super) fn switched(&self, is_float: bool) -> Self {
        match (self, is_float) {
            (Self::Int8(form), true) => Self::F32 {
                parameters: form.parameters().into(),
                packed: Arc::default(),
                reason: Reason::Faster,
                int8: Some(form.clone()),
            },
            (Self::F32 { int8: Some(form), .. }, false) => Self::Int8(form.clone()),
            _ => self.clone(),
        }
    }

    /// Packs a step with its quantized parameters; a step without an int8 kernel stays in f32.
    pub(super) fn try_new(
        step: &Step,
        kept: Option<Reason>,
        weights: Result<Option<Chosen>, WeightError>,
        x: &[ActivationScheme],
        y: ActivationScheme,
    ) -> Result<Self, PackError> {
        let Step { work, clip, shapes, .. } = step;
        let packed = || {
            let (weights, coding) = match weights? {
                Some(Chosen { weights, coding }) => (Some(weights), coding.map(Arc::new)),
                None => (None, None),
            };
            let around = Around { weights: weights.as_ref(), shapes, x, y: clip.output(y) };
            let kernel = work.operation.pack(&around)?;
            Ok(kernel.map(|kernel| Self::Int8(Int8Form { kernel, coding })))
        };
        let reason = match kept.map_or_else(packed, |_| Ok(None)) {
            Ok(Some(form)) => return Ok(form),
            Ok(None) if work.operation.is_in_burn() => Reason::InBurn,
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

impl QuantizedLayer {
    pub(super) fn weight_bytes(&self) -> usize {
        let integers = self.form.int8().map_or(0, |form| form.kernel.bytes());
        match &self.form {
            Form::Int8(_) => integers,
            Form::F32 { parameters, .. } => integers + parameters.bytes(),
        }
    }

    /// Bytes of its parameters in a file.
    pub(super) fn file_bytes(&self) -> usize {
        match (self.form.int8(), &self.form) {
            (Some(form), _) => form.kernel.weights().map_or(0, |weights| {
                let format = self.format().unwrap_or_default();
                format.bytes(weights.channels(), weights.each())
            }),
            (None, Form::F32 { parameters, .. }) => parameters.bytes(),
            (None, Form::Int8(_)) => 0,
        }
    }

    /// The format of its integer weights, if it has any.
    pub(super) fn format(&self) -> Option<WeightFormat> {
        let Int8Form { kernel, coding } = self.form.int8()?;
        match coding {
            Some(coding) => Some(coding.format),
            None => kernel.has_weights().then_some(WeightFormat::INT8),
        }
    }

    pub(super) const fn arithmetic(&self) -> Arithmetic {
        match &self.form {
            Form::Int8(_) => Arithmetic::Int8,
            Form::F32 { reason, .. } => Arithmetic::F32(*reason),
        }
    }

    /// Whether it can run in int8 and in f32, with the same weights.
    pub(super) const fn is_switchable(&self) -> bool {
        self.form.int8().is_some()
    }

    /// Whether its sums can be returned in f32.
    pub(super) fn is_product(&self) -> bool {
        self.form.int8().is_some_and(|form| form.kernel.product().is_some())
    }

    pub(super) const fn is_float(&self) -> bool {
        matches!(self.form, Form::F32 { .. })
    }
}
