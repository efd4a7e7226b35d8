//! The numbers of each output channel, four channels in a group of words.

use super::layout::words_of;
use super::reason::DeviceReason;
use super::rounding::factor_bits;
use crate::kernels::channels::Channels;
use crate::scheme::{ActivationScheme, OutputScheme};
use crate::weights::QuantizedWeights;

/// Numbers of the output channels of a layer.
#[derive(Debug)]
pub(super) struct OfChannels {
    /// Starts of the sums and bits of the factors: `[8][quads]`, four channels of each.
    pub(super) words: Vec<u32>,
    /// The factors of sums that are read.
    pub(super) dequantize: Vec<f32>,
    /// The zero point and the bits of the factor of a tensor that is added.
    pub(super) plus: Option<(i32, u32)>,
}

impl OfChannels {
    /// Those of weights whose products are with codes `lower` less than they are.
    pub(super) fn try_new(
        weights: &QuantizedWeights,
        output: OutputScheme,
        lower: i32,
        addend: Option<ActivationScheme>,
    ) -> Result<Self, DeviceReason> {
        let (outputs, quads) = (weights.channels(), words_of(weights.channels()));
        let channels = Channels::new(weights, 1, output);
        let [requantize, dequantize] = channels.factors();
        let mut words = vec![0; 8 * quads];
        for (output, values) in weights.values().chunks_exact(weights.each()).enumerate() {
            let sum = values.iter().fold(0_i32, |sum, &w| sum.wrapping_add(w.into()));
            let start = channels.start[output].wrapping_add(sum.wrapping_mul(lower));
            let (quad, lane) = (output / 4, output % 4);
            words[lane * quads + quad] = start as u32;
            words[(4 + lane) * quads + quad] = factor_bits(requantize[output])?;
        }
        let plus = addend.map(|scheme| {
            let plus = channels.plus(scheme);
            factor_bits(plus.factor).map(|factor| (plus.zero, factor))
        });
        Ok(Self { words, dequantize: dequantize[..outputs].to_vec(), plus: plus.transpose()? })
    }
}
