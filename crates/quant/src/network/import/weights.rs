//! The integer weights and biases of a layer.

use super::constant::Coded;
use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::Node;
use crate::network::protobuf::Element;
use crate::scheme::ActivationScheme;
use crate::weights::{QuantizedWeights, WeightError};

/// How far a bias may be from steps of the input's and the weights' scale: a product of two f32
/// that was rounded to f32 is within 10⁻⁷.
const NEAR: f64 = 1e-6;

/// Weights `[outputs][…]` as signed bytes, with one scale for each output.
#[derive(Debug, Clone)]
pub(super) struct GivenWeights {
    pub(super) values: Vec<i8>,
    pub(super) scales: Vec<f32>,
    pub(super) bias: Bias,
}

#[derive(Debug, Clone)]
pub(super) enum Bias {
    Real(Vec<f32>),
    Codes { codes: Vec<i32>, scales: Vec<f32> },
}

/// Weights of a file, before their order is that of the graph.
#[derive(Debug)]
pub(super) struct FileWeights {
    pub(super) shape: Vec<usize>,
    pub(super) real: Vec<f32>,
    /// Signed bytes with one scale, or one for each place along the axis of the outputs.
    pub(super) codes: Option<(Vec<i8>, Vec<f32>)>,
}

impl Bias {
    pub(super) fn reals(&self) -> Vec<f32> {
        match self {
            Self::Real(values) => values.clone(),
            Self::Codes { codes, scales } => {
                let both = codes.iter().zip(scales);
                let real =
                    |(&code, &scale): (&i32, &f32)| (f64::from(code) * f64::from(scale)) as f32;
                both.map(real).collect()
            }
        }
    }

    /// In steps of the scales of the weights and of the input.
    fn rounded(&self, weights: &[f32], input: ActivationScheme) -> Vec<i32> {
        let step = |channel: usize| f64::from(weights[channel]) * f64::from(input.scale());
        let nearest = |channel: usize, real: f64| (real / step(channel)).round_ties_even() as i32;
        match self {
            Self::Real(values) => {
                let both = values.iter().enumerate();
                both.map(|(channel, &value)| nearest(channel, value.into())).collect()
            }
            Self::Codes { codes, scales } => {
                let code = |(channel, (&code, &scale)): (usize, (&i32, &f32))| {
                    let scale = f64::from(scale);
                    let is_near = (scale / step(channel) - 1.0).abs() < NEAR;
                    if is_near { code } else { nearest(channel, f64::from(code) * scale) }
                };
                codes.iter().zip(scales).enumerate().map(code).collect()
            }
        }
    }
}

impl GivenWeights {
    /// The same for an input of a scheme.
    pub(super) fn quantized(
        &self,
        input: ActivationScheme,
    ) -> Result<QuantizedWeights, WeightError> {
        let bias = self.bias.rounded(&self.scales, input);
        QuantizedWeights::try_new(self.values.clone(), self.scales.clone(), bias, input)
    }

    /// Whether weights of the graph are still those of the file, and not merged with a scale.
    pub(super) fn are_those(&self, real: &[f32], bias: &[f32]) -> bool {
        let each = self.values.len() / self.scales.len().max(1);
        let scales = self.scales.iter().flat_map(|&scale| std::iter::repeat_n(scale, each));
        real.len() == self.values.len()
            && self
                .values
                .iter()
                .zip(scales)
                .zip(real)
                .all(|((&value, scale), &real)| f32::from(value) * scale == real)
            && self.bias.reals() == bias
    }
}

impl<'a> Importer<'a> {
    /// The weights of a node, whose outputs are along an axis.
    pub(super) fn weights(&self, node: &Node<'a>, axis: usize) -> Read<FileWeights> {
        match self.meaning(node, 1)? {
            Meaning::Constant(constant) => match constant.reals() {
                Some(real) => Ok(FileWeights { shape: constant.shape.clone(), real, codes: None }),
                None => self.refuse("its weights are integers without a DequantizeLinear"),
            },
            Meaning::Coded(coded) => {
                if coded.scales.len() > 1 && coded.axis != axis {
                    return self.refuse(
                        "its weights have scales along another axis than that of its outputs",
                    );
                }
                let is_byte = matches!(coded.codes.element, Element::I8 | Element::U8);
                let Some(values) = coded.signed_bytes().filter(|_| is_byte) else {
                    return self.refuse(
                        "its weights must be int8, or uint8 with the zero point 128; quantize with \
                         `weight_type=QuantType.QInt8`",
                    );
                };
                let codes = Some((values, coded.scales.clone()));
                Ok(FileWeights { shape: coded.codes.shape.clone(), real: coded.reals(), codes })
            }
            Meaning::Real(_) | Meaning::Codes(..) | Meaning::Sides(_) => {
                self.refuse("its weights depend on the input; constants can be used")
            }
        }
    }

    /// The biases of a node, zeros if they are left out.
    pub(super) fn bias(&self, node: &Node<'a>, at: usize, outputs: usize) -> Read<Bias> {
        if node.input(at).is_none() {
            return Ok(Bias::Codes { codes: vec![0; outputs], scales: vec![1.0; outputs] });
        }
        let bias = match self.meaning(node, at)? {
            Meaning::Constant(constant) => match constant.reals() {
                Some(values) => Bias::Real(values),
                None => return self.refuse("its biases are integers without a DequantizeLinear"),
            },
            Meaning::Coded(coded) => self.coded_bias(&coded)?,
            _ => return self.refuse("its biases depend on the input; constants can be used"),
        };
        let count = match &bias {
            Bias::Real(values) => values.len(),
            Bias::Codes { codes, .. } => codes.len(),
        };
        if count == outputs { Ok(bias) } else { self.refuse("it must have one bias per output") }
    }

    fn coded_bias(&self, coded: &Coded<'a>) -> Read<Bias> {
        let integers = coded.codes.integers().unwrap_or_default();
        if coded.codes.element != Element::I32 || coded.zeros.iter().any(|&zero| zero != 0) {
            return Ok(Bias::Real(coded.reals()));
        }
        let count = integers.len();
        let scales = match coded.scales[..] {
            [scale] => vec![scale; count],
            _ if coded.scales.len() == count => coded.scales.clone(),
            _ => return self.refuse("its biases have another number of scales"),
        };
        let codes = integers.into_iter().map(|code| code as i32).collect();
        Ok(Bias::Codes { codes, scales })
    }
}
