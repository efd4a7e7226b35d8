//! One layer of a quantized model.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use updraft_simd::Isa;

use super::fuse::Step;
use super::plan::{Arithmetic, Reason};
use crate::clip::Clip;
use crate::operation::{
    Around, FloatKernel, Kernel, LazyFloatKernel, Operation, PackError, Parameters, Shapes,
};
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
    /// Integer weights times activations in f32.
    WeightsOnly(Arc<WeightsOnly>),
}

/// A kernel in int8.
#[derive(Debug, Clone)]
pub(super) struct Int8Form {
    pub(super) kernel: Arc<dyn Kernel>,
    /// How a file stores its weights, if in fewer than eight bits.
    pub(super) coding: Option<Arc<Coding>>,
}

impl Int8Form {
    /// Its weights and biases in f32.
    fn parameters(&self) -> Parameters {
        self.kernel.weights().map_or_else(Parameters::default, |weights| weights.real())
    }
}

/// Integer weights of a layer that computes in f32.
#[derive(Debug)]
pub(super) struct WeightsOnly {
    weights: QuantizedWeights,
    coding: Option<Arc<Coding>>,
    /// The same, packed.
    packed: LazyFloatKernel,
    /// The same in f32, for operations that do not pack their weights.
    real: OnceLock<Parameters>,
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
            Self::WeightsOnly(_) => None,
        }
    }

    /// The integer weights, and how a file stores them if in fewer than eight bits.
    pub(super) fn coded_weights(&self) -> Option<(Cow<'_, QuantizedWeights>, Option<&Coding>)> {
        if let Self::WeightsOnly(form) = self {
            return Some((Cow::Borrowed(&form.weights), form.coding.as_deref()));
        }
        let Int8Form { kernel, coding } = self.int8()?;
        Some((Cow::Owned(kernel.weights()?), coding.as_deref()))
    }

    /// The kernel in f32, packed at the first call; none if samples are computed one by one.
    ///
    /// # Panics
    /// If the layer runs in int8.
    pub(super) fn float_kernel(
        &self,
        operation: &dyn Operation,
        shapes: &Shapes,
    ) -> Option<&FloatKernel> {
        let isa = Isa::detect();
        let kernel = match self {
            Self::Int8(_) => unreachable!("it is in int8"),
            Self::F32 { parameters, packed, .. } => {
                packed.get_or_init(|| operation.pack_f32(isa, parameters, shapes))
            }
            Self::WeightsOnly(form) => form.packed.get_or_init(|| {
                operation.pack_weights(isa, &form.weights, form.coding.as_deref(), shapes)
            }),
        };
        kernel.as_ref()
    }

    /// The parameters in f32.
    ///
    /// # Panics
    /// If the layer runs in int8.
    pub(super) fn float_parameters(&self) -> &Parameters {
        match self {
            Self::Int8(_) => unreachable!("it is in int8"),
            Self::F32 { parameters, .. } => parameters,
            Self::WeightsOnly(form) => form.real.get_or_init(|| form.weights.real()),
        }
    }

    /// The same weights for activations in f32; a layer without weights has no integers then.
    pub(super) fn with_float_activations(self) -> Self {
        let Self::Int8(Int8Form { kernel, coding }) = self else { return self };
        match kernel.weights() {
            Some(weights) => Self::WeightsOnly(Arc::new(WeightsOnly {
                weights,
                coding,
                packed: LazyFloatKernel::new(),
                real: OnceLock::new(),
            })),
            None => Self::in_f32(Arc::default(), Reason::WeightsOnly),
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
            Form::WeightsOnly(form) => form.weights.values().len() + 8 * form.weights.channels(),
        }
    }

    /// Bytes of its parameters in a file.
    pub(super) fn file_bytes(&self) -> usize {
        match (self.form.coded_weights(), &self.form) {
            (Some((weights, _)), _) => {
                let format = self.format().unwrap_or_default();
                format.bytes(weights.channels(), weights.each())
            }
            (None, Form::F32 { parameters, int8: None, .. }) => parameters.bytes(),
            (None, _) => 0,
        }
    }

    /// The format of its integer weights, if it has any.
    pub(super) fn format(&self) -> Option<WeightFormat> {
        let (has_weights, coding) = match &self.form {
            Form::WeightsOnly(form) => (true, &form.coding),
            form => form.int8().map(|form| (form.kernel.has_weights(), &form.coding))?,
        };
        match coding {
            Some(coding) => Some(coding.format),
            None => has_weights.then_some(WeightFormat::INT8),
        }
    }

    pub(super) const fn arithmetic(&self) -> Arithmetic {
        match &self.form {
            Form::Int8(_) => Arithmetic::Int8,
            Form::F32 { reason, .. } => Arithmetic::F32(*reason),
            Form::WeightsOnly(_) => Arithmetic::F32(Reason::WeightsOnly),
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
        !matches!(self.form, Form::Int8(_))
    }
}
