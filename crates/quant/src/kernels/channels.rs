//! The initial values of each output channel's sums, and their factors.

use updraft_simd::{Clamp, INT8_LANES, Plus};

use super::cpu::{Requantized, Scaled, Summed};
use crate::scheme::{ActivationScheme, OutputScheme};
use crate::weights::QuantizedWeights;

/// A tensor that a layer adds to its result before both are rounded to int8.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addend<'a> {
    /// The scheme of its codes.
    pub(crate) scheme: ActivationScheme,
    /// One code for each number of the layer's output, in the same order.
    pub(crate) codes: &'a [u8],
}

impl<'a> Addend<'a> {
    /// Some of the codes.
    pub(crate) fn part(self, places: std::ops::Range<usize>) -> Self {
        Self { codes: &self.codes[places], ..self }
    }
}

/// The numbers of all output channels, each group padded to whole vectors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Channels {
    /// `bias − zero·Σ weights`: the zero point of the input, taken out of every sum ahead.
    pub(crate) start: Vec<i32>,
    /// `input scale · weight scale / output scale`.
    requantize: Vec<f32>,
    /// `input scale · weight scale`.
    dequantize: Vec<f32>,
    /// The original scales and biases of the weights, and the scheme of their input.
    scales: Vec<f32>,
    bias: Vec<i32>,
    input: ActivationScheme,
    clamp: Clamp,
    /// A step of the output.
    scale: f32,
    /// Numbers of a group.
    pub(crate) padded: usize,
}

impl Channels {
    pub(crate) fn new(weights: &QuantizedWeights, groups: usize, output: OutputScheme) -> Self {
        let outputs = weights.channels() / groups;
        let padded = outputs.next_multiple_of(INT8_LANES);
        let numbers = groups * padded;
        let (mut start, mut requantize, mut dequantize) =
            (vec![0; numbers], vec![0.0; numbers], vec![0.0; numbers]);
        let input = weights.input();
        let each = weights.values().chunks_exact(weights.each());
        for (channel, values) in each.enumerate() {
            let at = channel / outputs * padded + channel % outputs;
            let sum = values.iter().fold(0_i32, |sum, &w| sum.wrapping_add(w.into()));
            let zeros = sum.wrapping_mul(input.zero_point().into());
            start[at] = weights.bias()[channel].wrapping_sub(zeros);
            let scale = f64::from(input.scale()) * f64::from(weights.scales()[channel]);
            dequantize[at] = scale as f32;
            requantize[at] = (scale / f64::from(output.scheme().scale())) as f32;
        }
        let [least, greatest] = output.bounds();
        let clamp = Clamp::new(output.scheme().zero_point(), least, greatest);
        let scale = output.scheme().scale();
        let (scales, bias) = (weights.scales().to_vec(), weights.bias().to_vec());
        Self { start, requantize, dequantize, scales, bias, input, clamp, scale, padded }
    }

    /// The parameters of these numbers, with their codes.
    pub(crate) fn weights(&self, values: Vec<i8>) -> QuantizedWeights {
        let (scales, bias) = (self.scales.clone(), self.bias.clone());
        QuantizedWeights::try_new(values, scales, bias, self.input).expect("they were checked")
    }

    /// The initial values of a group.
    pub(crate) fn start(&self, group: usize) -> &[i32] {
        &self.start[group * self.padded..][..self.padded]
    }

    /// Back to int8.
    pub(crate) fn requantized(&self, group: usize) -> Requantized<'_> {
        let scales = &self.requantize[group * self.padded..][..self.padded];
        Requantized { scales, clamp: self.clamp }
    }

    /// Back to int8, with an added tensor that has the positions of the output.
    pub(crate) fn summed<'a>(&'a self, group: usize, addend: Addend<'a>) -> Summed<'a> {
        let Requantized { scales, clamp } = self.requantized(group);
        let Addend { scheme, codes } = addend;
        Summed { scales, plus: self.plus(scheme), codes, clamp }
    }

    /// The conversion of added codes to steps of the output.
    pub(crate) fn plus(&self, scheme: ActivationScheme) -> Plus {
        let factor = (f64::from(scheme.scale()) / f64::from(self.scale)) as f32;
        Plus { zero: scheme.zero_point().into(), factor }
    }

    /// The factors of sums, back to int8 and to real numbers.
    #[cfg(any(feature = "cube", feature = "every-kernel"))]
    pub(crate) fn factors(&self) -> [&[f32]; 2] {
        [&self.requantize, &self.dequantize]
    }

    /// To real numbers, before any activation function.
    pub(crate) fn scaled(&self, group: usize) -> Scaled<'_> {
        Scaled { scales: &self.dequantize[group * self.padded..][..self.padded] }
    }
}
