//! Signed 8-bit weights, one scale for each output channel, and formats of fewer bits.

mod coding;
mod format;
mod grid;

pub(crate) use coding::Coding;
pub use format::{FormatError, WeightFormat};
pub(crate) use grid::Grid;

use crate::operation::Parameters;
use crate::scheme::ActivationScheme;

/// A layer's weights and bias as integers: `w = q·scale[channel]`, symmetric.
///
/// The bias is counted in `scale[channel]·input.scale()`, so that it adds to sums of products.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedWeights {
    values: Vec<i8>,
    scales: Vec<f32>,
    bias: Vec<i32>,
    input: ActivationScheme,
}

/// Errors of quantizing weights.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightError {
    /// A layer without output channels, or channels without weights.
    #[error(
        "expected at least one output channel with one weight, got {channels} channels of {each} weights"
    )]
    Empty {
        /// Output channels.
        channels: usize,
        /// Weights of each.
        each: usize,
    },
    /// A slice has another length.
    #[error("expected {expected} {what}, got {got}")]
    Length {
        /// The content of the slice.
        what: &'static str,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        got: usize,
    },
    /// NaN or infinity.
    #[error("{what} {index} is {value}; weights must be finite before they can be quantized")]
    NotFinite {
        /// `weight` or `bias`.
        what: &'static str,
        /// Its place.
        index: usize,
        /// The value.
        value: f32,
    },
    /// A scale is not a positive normal number.
    #[error("the weight scale {scale} of channel {channel} is not a positive normal number")]
    Scale {
        /// The channel.
        channel: usize,
        /// Its scale.
        scale: f32,
    },
    /// A number of the packed codes.
    #[error("{what} {index} is invalid")]
    Code {
        /// What is wrong.
        what: &'static str,
        /// Its place.
        index: usize,
    },
    /// A sum could exceed 32 bits.
    #[error(
        "sums of channel {channel} may reach {sum}, which 32 bits do not hold; keep the layer in f32"
    )]
    Overflow {
        /// The channel.
        channel: usize,
        /// The sum of largest magnitude that inputs may lead to.
        sum: i64,
    },
}

/// How far multiples of a step may be from whole numbers: a product of two f32 factors is within
/// 127·10⁻⁷, and rounding such weights changes them by as little.
const WHOLE: f64 = 1e-4;

/// The largest bias of a sum, so that room is left for products.
const BIAS_LIMIT: f64 = (1_u32 << 30) as f64;

impl QuantizedWeights {
    /// Rounds weights `[channels][each]` to the nearest code, `±127` for the largest of a channel.
    ///
    /// Weights of a channel that are multiples of a step already, such as those that were rounded
    /// in training, keep their values: the largest then may have a code below 127.
    ///
    /// A scale is increased if the bias would not fit into 30 bits; a channel of zeros takes
    /// the smallest that its bias allows, or the largest of all channels if there is no bias.
    ///
    /// # Errors
    /// [`WeightError`] for an empty layer, another length, NaN or infinity, or sums that could
    /// overflow.
    pub fn try_quantize(
        weights: &[f32],
        bias: Option<&[f32]>,
        channels: usize,
        input: ActivationScheme,
    ) -> Result<Self, WeightError> {
        let zeros = vec![0.0; channels];
        let bias = bias.filter(|bias| !bias.is_empty()).unwrap_or(&zeros);
        check_length("biases", channels, bias.len())?;
        let grid = Grid::fit(weights, bias, WeightFormat::INT8, input)?;
        Self::on_grid(&grid, &grid.nearest(weights), bias, input)
    }

    /// The levels of a grid, with the biases in real units.
    pub(crate) fn on_grid(
        grid: &Grid,
        levels: &[i32],
        bias: &[f32],
        input: ActivationScheme,
    ) -> Result<Self, WeightError> {
        let biases = grid.biases(bias, input);
        Self::try_new(grid.bytes(levels), grid.scales.clone(), biases, input)
    }

    /// Weights that are integers already.
    ///
    /// # Errors
    /// [`WeightError`] for an empty layer, another length, a scale that is not positive and
    /// normal, or sums that could overflow.
    pub fn try_new(
        values: Vec<i8>,
        scales: Vec<f32>,
        bias: Vec<i32>,
        input: ActivationScheme,
    ) -> Result<Self, WeightError> {
        let channels = scales.len();
        let each = values.len() / channels.max(1);
        if channels == 0 || each == 0 {
            return Err(WeightError::Empty { channels, each });
        }
        check_length("weights", channels * each, values.len())?;
        check_length("biases", channels, bias.len())?;
        let is_bad = |scale: &f32| !(scale.is_normal() && *scale > 0.0);
        if let Some(channel) = scales.iter().position(is_bad) {
            return Err(WeightError::Scale { channel, scale: scales[channel] });
        }
        for (channel, values) in values.chunks_exact(each).enumerate() {
            let sum = furthest_sum(values, bias[channel], input.zero_point());
            if i32::try_from(sum).is_err() {
                return Err(WeightError::Overflow { channel, sum });
            }
        }
        Ok(Self { values, scales, bias, input })
    }

    /// The codes, `[channels][each]`.
    #[must_use]
    pub fn values(&self) -> &[i8] {
        &self.values
    }

    /// One scale for each channel.
    #[must_use]
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// One bias for each channel.
    #[must_use]
    pub fn bias(&self) -> &[i32] {
        &self.bias
    }

    /// The scheme of the activations that these weights are multiplied by.
    #[must_use]
    pub const fn input(&self) -> ActivationScheme {
        self.input
    }

    /// Output channels.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.scales.len()
    }

    /// The weights and biases in f32: the numbers that the integers stand for, each rounded once.
    pub(crate) fn real(&self) -> Parameters {
        let channels = self.scales.iter().zip(self.values.chunks_exact(self.each()));
        let weights = channels
            .flat_map(|(&scale, values)| values.iter().map(move |&value| f32::from(value) * scale));
        Parameters { weights: weights.collect(), bias: self.real_bias() }
    }

    /// The biases in f32.
    pub(crate) fn real_bias(&self) -> Vec<f32> {
        let input = f64::from(self.input.scale());
        let real =
            |(&bias, &scale): (&i32, &f32)| (f64::from(bias) * f64::from(scale) * input) as f32;
        self.bias.iter().zip(&self.scales).map(real).collect()
    }

    /// Weights of each channel.
    #[must_use]
    pub fn each(&self) -> usize {
        self.values.len() / self.scales.len()
    }
}

/// The code of the largest weight of a channel, at most `most`: the greatest one with which all
/// weights are whole multiples of a step; none if there is none.
///
/// The greatest, because the bias is counted in the same step.
fn greatest_code(channel: &[f32], largest: f32, most: i32) -> Option<f64> {
    let is_whole = |code: f64| {
        let step = f64::from(largest) / code;
        channel.iter().all(|&w| {
            let multiple = f64::from(w) / step;
            (multiple - multiple.round_ties_even()).abs() < WHOLE
        })
    };
    let least = (1..=most).map(f64::from).find(|&code| is_whole(code))?;
    Some(least * (f64::from(most) / least).floor())
}

/// Whether each of the channels has several weights, and these are whole multiples of a step with
/// codes of a symmetric format.
pub(crate) fn are_multiples(weights: &[f32], channels: usize, format: WeightFormat) -> bool {
    let each = weights.len() / channels.max(1);
    each > 1
        && weights.chunks_exact(each).all(|channel| {
            let largest = channel.iter().fold(0.0_f32, |most, w| most.max(w.abs()));
            largest == 0.0 || greatest_code(channel, largest, format.most()).is_some()
        })
}

/// The sum `bias + Σ (a − zero)·w` of largest magnitude that activations `a` may lead to.
fn furthest_sum(weights: &[i8], bias: i32, zero: u8) -> i64 {
    let of_sign = |sign: i8| -> i64 {
        weights.iter().filter(|w| w.signum() == sign).map(|&w| i64::from(w)).sum()
    };
    let (positive, negative) = (of_sign(1), of_sign(-1));
    let (below, above) = (-i64::from(zero), 255 - i64::from(zero));
    let most = i64::from(bias) + above * positive + below * negative;
    let least = i64::from(bias) + below * positive + above * negative;
    if most.abs() > least.abs() { most } else { least }
}

fn check_length(what: &'static str, expected: usize, got: usize) -> Result<(), WeightError> {
    if got == expected { Ok(()) } else { Err(WeightError::Length { what, expected, got }) }
}

pub(crate) fn check_finite(what: &'static str, values: &[f32]) -> Result<(), WeightError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(WeightError::NotFinite { what, index, value: values[index] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> ActivationScheme {
        ActivationScheme::try_new(0.5, 128).expect("valid")
    }

    #[test]
    fn weights_on_a_grid_keep_their_values() {
        let input = ActivationScheme::try_from_range(0.0, 1.0).expect("valid");
        // Multiples of a step, of which no channel has the greatest code of four or eight bits.
        for (step, codes) in [
            (0.037_f32, [-3, 0, 5, 1, 4]),
            (1.7, [7, -7, 2, 3, 0]),
            (0.001, [101, -13, 64, 1, -99]),
        ] {
            let weights = codes.map(|code| code as f32 * step);
            let quantized =
                QuantizedWeights::try_quantize(&weights, None, 1, input).expect("finite");
            let scale = quantized.scales()[0];
            for (&code, weight) in quantized.values().iter().zip(weights) {
                assert!((f32::from(code) * scale - weight).abs() <= 1e-6 * step, "{weight}");
            }
            assert!(quantized.values().iter().any(|code| code.unsigned_abs() > 63));
        }
        // Also those of fewer bits, if they have the codes.
        let weights = [-3, 0, 5, 1, 4].map(|code| code as f32 * 0.037);
        for (bits, is_kept) in [(4, true), (3, false)] {
            let format = WeightFormat::try_new(bits).expect("supported");
            assert_eq!(are_multiples(&weights, 1, format), is_kept);
            let grid = Grid::fit(&weights, &[0.0], format, input).expect("finite");
            let real = grid.real(&grid.nearest(&weights));
            let is_same = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
            assert_eq!(real.iter().zip(&weights).all(is_same), is_kept);
        }
        // Elsewhere the largest weight has the greatest code.
        let weights = [0.5, 0.1234, -0.333, 0.021];
        let quantized = QuantizedWeights::try_quantize(&weights, None, 1, input).expect("finite");
        assert_eq!(quantized.values()[0], 127);
    }

    #[test]
    fn every_channel_uses_all_of_its_codes() {
        let weights = [1.27, -0.64, 0.0, 0.02, 127.0, 1.4];
        let given = QuantizedWeights::try_quantize(&weights, Some(&[1.0, 3.0]), 2, input())
            .expect("finite");
        assert_eq!(given.values(), [127, -64, 0, 0, 127, 1]);
        assert!((given.scales()[0] - 0.01).abs() < 1e-8);
        assert_eq!(given.scales()[1], 1.0);
        // 1.0 in steps of 0.01·0.5, and 3.0 in steps of 1.0·0.5.
        assert_eq!(given.bias(), [200, 6]);
    }

    #[test]
    fn a_channel_of_zeros_keeps_its_bias() {
        let weights = [0.0, 0.0, 1.27, 1.0];
        let given = QuantizedWeights::try_quantize(&weights, Some(&[0.7, 0.0]), 2, input())
            .expect("finite");
        let bias = f64::from(given.bias()[0]) * f64::from(given.scales()[0]) * 0.5;
        assert!((bias - 0.7).abs() < 1e-6, "{bias}");
    }

    #[test]
    fn a_bias_far_above_its_weights_still_fits() {
        let given =
            QuantizedWeights::try_quantize(&[1e-12], Some(&[5.0]), 1, input()).expect("finite");
        let bias = f64::from(given.bias()[0]) * f64::from(given.scales()[0]) * 0.5;
        assert!((bias - 5.0).abs() < 1e-5, "{bias}");
    }

    #[test]
    fn bad_weights_are_refused_with_their_place() {
        let quantize = |weights: &[f32], bias: Option<&[f32]>, channels| {
            QuantizedWeights::try_quantize(weights, bias, channels, input())
                .expect_err("bad")
                .to_string()
        };
        assert!(quantize(&[], None, 0).contains("got 0 channels of 0 weights"));
        assert!(quantize(&[1.0], None, 0).contains("got 0 channels"));
        assert!(quantize(&[1.0; 3], None, 2).contains("expected 2 weights, got 3"));
        assert!(quantize(&[1.0, f32::NAN], None, 1).contains("weight 1 is NaN"));
        assert!(quantize(&[1.0], Some(&[f32::INFINITY]), 1).contains("bias 0 is inf"));
        assert!(quantize(&[1.0; 2], Some(&[1.0]), 2).contains("expected 2 biases, got 1"));
    }

    #[test]
    fn sums_beyond_32_bits_are_refused() {
        let zero = ActivationScheme::try_new(1.0, 0).expect("valid");
        let new = |each: usize, bias| {
            QuantizedWeights::try_new(vec![-128; each], vec![1.0], vec![bias], zero)
        };
        // 65 793·255·128 = 2 147 483 520, and 128 below the lowest of 32 bits.
        assert!(new(65_793, 0).is_ok());
        assert!(new(65_793, -128).is_ok());
        let error = new(65_793, -129).expect_err("one too far");
        assert_eq!(error, WeightError::Overflow { channel: 0, sum: -2_147_483_649 });
    }
}
