//! What each output channel's sums start from, and what they are multiplied by in the end.

use super::cpu::{Clamp, LANES, Requantized, Scaled};
use crate::scheme::OutputScheme;
use crate::weights::QuantizedWeights;

/// The numbers of all output channels, each group padded to whole vectors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Channels {
    /// `bias − zero·Σ weights`: the zero point of the input, taken out of every sum ahead.
    pub(crate) start: Vec<i32>,
    /// `input scale · weight scale / output scale`.
    requantize: Vec<f32>,
    /// `input scale · weight scale`.
    dequantize: Vec<f32>,
    clamp: Clamp,
    /// Numbers of a group.
    pub(crate) padded: usize,
}

impl Channels {
    pub(crate) fn new(weights: &QuantizedWeights, groups: usize, output: OutputScheme) -> Self {
        let outputs = weights.channels() / groups;
        let padded = outputs.next_multiple_of(LANES);
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
        Self { start, requantize, dequantize, clamp, padded }
    }

    /// The starts of a group.
    pub(crate) fn start(&self, group: usize) -> &[i32] {
        &self.start[group * self.padded..][..self.padded]
    }

    /// Back into eight bits.
    pub(crate) fn requantized(&self, group: usize) -> Requantized<'_> {
        let scales = &self.requantize[group * self.padded..][..self.padded];
        Requantized { scales, clamp: self.clamp }
    }

    /// Into real numbers, before any activation function.
    pub(crate) fn scaled(&self, group: usize) -> Scaled<'_> {
        Scaled { scales: &self.dequantize[group * self.padded..][..self.padded] }
    }
}
