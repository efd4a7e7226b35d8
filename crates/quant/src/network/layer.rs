//! One layer of a quantized model.

use updraft_conv::slices::ConvGeometry;

use super::fuse::{Step, Work};
use super::model::QuantizeError;
use crate::kernels::{
    Pooling, QuantizedAdd, QuantizedConvolution, QuantizedLinear, QuantizedPooling,
};
use crate::scheme::{ActivationScheme, OutputScheme};
use crate::weights::{QuantizedWeights, WeightError};

/// A step of the model: its kernel, packed, and what that was packed from.
#[derive(Debug, Clone)]
pub(super) struct QuantizedLayer {
    pub(super) name: String,
    pub(super) kernel: Kernel,
    pub(super) source: Source,
    pub(super) inputs: Vec<usize>,
    pub(super) is_rectified: bool,
    pub(super) multiply_adds: usize,
}

/// What a kernel was packed from, in the order of the graph.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Convolution { geometry: ConvGeometry, weights: QuantizedWeights },
    Add,
    Pool { geometry: ConvGeometry, pooling: Pooling },
    Linear { weights: QuantizedWeights },
}

/// What computes a layer.
#[derive(Debug, Clone)]
pub(super) enum Kernel {
    Convolution(QuantizedConvolution),
    Add(QuantizedAdd),
    Pool(QuantizedPooling),
    Linear(QuantizedLinear),
    /// A fully connected layer that ends the network, in f32.
    Answer(QuantizedLinear),
}

impl QuantizedLayer {
    /// Quantizes the weights of a step that gives `tensor`, and packs them.
    pub(super) fn try_new(
        step: &Step,
        tensor: usize,
        schemes: &[ActivationScheme],
        shapes: &[[usize; 3]],
    ) -> Result<Self, QuantizeError> {
        let failed = |source| QuantizeError::Weights { layer: step.name.clone(), source };
        let input = schemes[step.inputs[0]];
        let quantized = |weights: &[f32], bias: &[f32]| {
            QuantizedWeights::try_quantize(weights, Some(bias), bias.len(), input).map_err(failed)
        };
        let source = match &step.work {
            Work::Convolution { geometry, weights, bias } => {
                Source::Convolution { geometry: *geometry, weights: quantized(weights, bias)? }
            }
            Work::Add => Source::Add,
            Work::Pool { geometry, pooling } => {
                Source::Pool { geometry: *geometry, pooling: *pooling }
            }
            Work::Linear { weights, bias } => Source::Linear { weights: quantized(weights, bias)? },
        };
        let (name, inputs) = (step.name.clone(), step.inputs.clone());
        Self::try_from_source(name, source, inputs, step.is_rectified, tensor, schemes, shapes)
            .map_err(failed)
    }

    /// Packs a layer that gives `tensor`, the last of `shapes` if it ends the network.
    pub(super) fn try_from_source(
        name: String,
        source: Source,
        inputs: Vec<usize>,
        is_rectified: bool,
        tensor: usize,
        schemes: &[ActivationScheme],
        shapes: &[[usize; 3]],
    ) -> Result<Self, WeightError> {
        let input = schemes[inputs[0]];
        let output = if is_rectified {
            OutputScheme::rectified(schemes[tensor])
        } else {
            OutputScheme::new(schemes[tensor])
        };
        let mut multiply_adds = 0;
        let kernel = match &source {
            Source::Convolution { geometry, weights } => {
                multiply_adds = geometry.operations() / 2;
                Kernel::Convolution(QuantizedConvolution::try_new(geometry, weights, output)?)
            }
            Source::Add => Kernel::Add(QuantizedAdd::new([input, schemes[inputs[1]]], output)),
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
        };
        Ok(Self { name, kernel, source, inputs, is_rectified, multiply_adds })
    }

    pub(super) fn weight_bytes(&self) -> usize {
        match &self.kernel {
            Kernel::Convolution(kernel) => kernel.bytes(),
            Kernel::Linear(kernel) | Kernel::Answer(kernel) => kernel.bytes(),
            Kernel::Add(_) | Kernel::Pool(_) => 0,
        }
    }
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
