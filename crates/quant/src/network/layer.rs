//! One layer of a quantized model.

use updraft_conv::slices::ConvGeometry;

use super::function::Function;
use super::fuse::{Step, Work};
use super::plan::{Arithmetic, Reason};
use super::table::{Joining, Table};
use crate::kernels::{
    Pooling, QuantizedAdd, QuantizedConvolution, QuantizedLinear, QuantizedPooling,
    QuantizedProduct,
};
use crate::scheme::{ActivationScheme, OutputScheme, SchemeError};
use crate::weights::{QuantizedWeights, WeightError};

/// A step of the model: its kernel, packed, and what that was packed from.
#[derive(Debug, Clone)]
pub(super) struct QuantizedLayer {
    pub(super) name: String,
    pub(super) kernel: Kernel,
    pub(super) source: Source,
    pub(super) inputs: Vec<usize>,
    pub(super) is_rectified: bool,
    /// Whether it gave nothing but zero for every calibration image.
    pub(super) is_zero: bool,
    pub(super) multiply_adds: usize,
}

/// What a kernel was packed from, in the order of the graph.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The addend is the factor of a second tensor that is read.
    Convolution {
        geometry: ConvGeometry,
        weights: QuantizedWeights,
        addend: Option<f32>,
    },
    Add {
        factors: [f32; 2],
    },
    Pool {
        geometry: ConvGeometry,
        pooling: Pooling,
    },
    Linear {
        weights: QuantizedWeights,
    },
    Function(Function),
    Multiply,
    Concatenate,
    Float {
        step: Step,
        reason: Reason,
    },
}

/// What computes a layer.
#[derive(Debug, Clone)]
pub(super) enum Kernel {
    Convolution(QuantizedConvolution),
    /// A convolution and a tensor of the scheme, added.
    Sum {
        convolution: QuantizedConvolution,
        addend: ActivationScheme,
    },
    Add(QuantizedAdd),
    Pool(QuantizedPooling),
    Linear(QuantizedLinear),
    /// A fully connected layer that ends the network, in f32.
    Answer(QuantizedLinear),
    Function(Table),
    Multiply(QuantizedProduct),
    Concatenate(Joining),
    /// In f32, image by image; the step says what.
    Float,
}

/// Why a layer's parts make no kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PackError {
    Weights(WeightError),
    /// A summand's scheme, multiplied by its factor.
    Factor(SchemeError),
}

impl From<WeightError> for PackError {
    fn from(error: WeightError) -> Self {
        Self::Weights(error)
    }
}

/// The tensors of a model: what a layer needs to know of those that it reads and gives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tensors<'a> {
    pub(super) schemes: &'a [ActivationScheme],
    pub(super) shapes: &'a [[usize; 3]],
}

impl QuantizedLayer {
    /// Quantizes the weights of a step that gives `tensor`, and packs them; a step that has no
    /// form in eight bits stays in f32.
    pub(super) fn try_new(
        step: &Step,
        tensor: usize,
        kept: Option<Reason>,
        tensors: Tensors<'_>,
    ) -> Result<Self, PackError> {
        let input = tensors.schemes[step.inputs[0]];
        let source = match Source::try_new(step, kept, input) {
            Err(WeightError::Overflow { channel, sum }) => {
                Source::float(step, Reason::Overflow { channel, sum })
            }
            other => other?,
        };
        let (name, inputs) = (step.name.clone(), step.inputs.clone());
        let is_float = matches!(source, Source::Float { .. });
        match Self::try_from_source(name, source, inputs, step.is_rectified, tensor, tensors) {
            Err(PackError::Weights(WeightError::Overflow { channel, sum })) if !is_float => {
                let source = Source::float(step, Reason::Overflow { channel, sum });
                let (name, inputs) = (step.name.clone(), step.inputs.clone());
                Self::try_from_source(name, source, inputs, step.is_rectified, tensor, tensors)
            }
            other => other,
        }
    }

    /// Packs a layer that gives `tensor`, the last of `shapes` if it ends the network.
    pub(super) fn try_from_source(
        name: String,
        source: Source,
        inputs: Vec<usize>,
        is_rectified: bool,
        tensor: usize,
        Tensors { schemes, shapes }: Tensors<'_>,
    ) -> Result<Self, PackError> {
        let input = schemes[inputs[0]];
        let output = if is_rectified {
            OutputScheme::rectified(schemes[tensor])
        } else {
            OutputScheme::new(schemes[tensor])
        };
        let mut multiply_adds = 0;
        let kernel = match &source {
            Source::Convolution { geometry, weights, addend } => {
                multiply_adds = geometry.operations() / 2;
                let convolution = QuantizedConvolution::try_new(geometry, weights, output)?;
                match addend {
                    None => Kernel::Convolution(convolution),
                    Some(factor) => {
                        let addend = scaled(schemes[inputs[1]], *factor)?;
                        Kernel::Sum { convolution, addend }
                    }
                }
            }
            Source::Add { factors } => {
                let [a, b] = [0, 1].map(|index| scaled(schemes[inputs[index]], factors[index]));
                Kernel::Add(QuantizedAdd::new([a?, b?], output))
            }
            Source::Pool { geometry, pooling } => {
                Kernel::Pool(QuantizedPooling::new(geometry, *pooling, input, output))
            }
            Source::Linear { weights } => {
                multiply_adds = weights.values().len();
                let ordered = channels_last(weights.values(), shapes[inputs[0]]);
                let (scales, bias) = (weights.scales().to_vec(), weights.bias().to_vec());
                let ordered = QuantizedWeights::try_new(ordered, scales, bias, input)?;
                let kernel = QuantizedLinear::new(&ordered, output);
                let is_answer = tensor + 1 == shapes.len() && !is_rectified;
                if is_answer { Kernel::Answer(kernel) } else { Kernel::Linear(kernel) }
            }
            Source::Function(function) => {
                Kernel::Function(Table::new(input, output.scheme(), |x| function.of(x)))
            }
            Source::Multiply => {
                let both = [input, schemes[inputs[1]]];
                Kernel::Multiply(QuantizedProduct::new(both, output.scheme()))
            }
            Source::Concatenate => {
                let part = |&input: &usize| (shapes[input][0], schemes[input]);
                let parts: Vec<_> = inputs.iter().map(part).collect();
                Kernel::Concatenate(Joining::new(&parts, output.scheme()))
            }
            Source::Float { step, .. } => {
                multiply_adds = step.multiply_adds();
                Kernel::Float
            }
        };
        let is_zero = false;
        Ok(Self { name, kernel, source, inputs, is_rectified, is_zero, multiply_adds })
    }

    pub(super) fn weight_bytes(&self) -> usize {
        match (&self.kernel, &self.source) {
            (Kernel::Convolution(kernel) | Kernel::Sum { convolution: kernel, .. }, _) => {
                kernel.bytes()
            }
            (Kernel::Linear(kernel) | Kernel::Answer(kernel), _) => kernel.bytes(),
            (Kernel::Float, Source::Float { step, .. }) => match &step.work {
                Work::Convolution { weights, bias, .. } | Work::Linear { weights, bias } => {
                    size_of_val(&weights[..]) + size_of_val(&bias[..])
                }
                _ => 0,
            },
            _ => 0,
        }
    }

    pub(super) const fn arithmetic(&self) -> Arithmetic {
        match &self.source {
            Source::Float { reason, .. } => Arithmetic::F32(*reason),
            _ => Arithmetic::Int8,
        }
    }

    pub(super) const fn is_float(&self) -> bool {
        matches!(self.kernel, Kernel::Float)
    }
}

impl Source {
    fn try_new(
        step: &Step,
        kept: Option<Reason>,
        input: ActivationScheme,
    ) -> Result<Self, WeightError> {
        let quantized = |weights: &[f32], bias: &[f32]| {
            QuantizedWeights::try_quantize(weights, Some(bias), bias.len(), input)
        };
        if let Some(reason) = kept {
            return Ok(Self::float(step, reason));
        }
        Ok(match &step.work {
            Work::Convolution { geometry, weights, bias, addend } => {
                let (geometry, addend) = (*geometry, *addend);
                Self::Convolution { geometry, weights: quantized(weights, bias)?, addend }
            }
            Work::Add { factors } => Self::Add { factors: *factors },
            Work::Pool { geometry, pooling } => {
                Self::Pool { geometry: *geometry, pooling: *pooling }
            }
            Work::Linear { weights, bias } => Self::Linear { weights: quantized(weights, bias)? },
            Work::Function(function) => Self::Function(function.clone()),
            Work::Multiply => Self::Multiply,
            Work::Concatenate => Self::Concatenate,
            Work::Softmax => Self::float(step, Reason::NoInt8Form),
        })
    }

    fn float(step: &Step, reason: Reason) -> Self {
        Self::Float { step: step.clone(), reason }
    }
}

/// The scheme of a tensor that is multiplied by a factor.
fn scaled(scheme: ActivationScheme, factor: f32) -> Result<ActivationScheme, PackError> {
    ActivationScheme::try_new(scheme.scale() * factor, scheme.zero_point())
        .map_err(PackError::Factor)
}

/// Weights `[outputs][channels][height][width]` as `[outputs][height][width][channels]`.
fn channels_last(weights: &[i8], [channels, height, width]: [usize; 3]) -> Vec<i8> {
    let pixels = height * width;
    let of_output = |weights: &[i8]| -> Vec<i8> {
        let at = |index: usize| weights[index % channels * pixels + index / channels];
        (0..channels * pixels).map(at).collect()
    };
    weights.chunks_exact(channels * pixels).flat_map(of_output).collect()
}
