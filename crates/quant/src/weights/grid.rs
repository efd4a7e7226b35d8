//! The codes that a layer's weights may have: scales, multipliers of groups, and zero points.

use super::WeightError;
use super::format::WeightFormat;
use crate::scheme::ActivationScheme;

/// The fractions of the greatest weight that are tried as the range of fewer than eight bits.
const FRACTIONS: usize = 32;

/// The smallest of them.
const LEAST_FRACTION: f64 = 0.2;

/// The codes of a layer's weights: `weight ≈ scale·multiplier·(code − zero)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grid {
    pub(crate) format: WeightFormat,
    /// Weights of a channel.
    pub(crate) each: usize,
    /// One for each channel.
    pub(crate) scales: Vec<f32>,
    /// `[channels][groups]`.
    pub(crate) multipliers: Vec<u8>,
    /// `[channels][groups]`; 0 if the format is symmetric.
    pub(crate) zeros: Vec<u8>,
}

/// The codes of one group: `step·v` for whole numbers `v` from `least` to `most`; without the 0
/// between for one bit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Levels {
    pub(crate) step: f64,
    pub(crate) least: i32,
    pub(crate) most: i32,
    is_sign: bool,
}

impl Levels {
    /// The nearest level.
    #[inline]
    pub(crate) fn nearest(self, weight: f64) -> i32 {
        if self.is_sign {
            return if weight < 0.0 { -1 } else { 1 };
        }
        ((weight / self.step).round_ties_even() as i32).clamp(self.least, self.most)
    }

    /// The level below a weight and the level above it, equal at the ends.
    pub(crate) fn around(self, weight: f64) -> [i32; 2] {
        if self.is_sign {
            return [-1, 1];
        }
        let below = (weight / self.step).floor() as i32;
        [below, below.saturating_add(1)].map(|level| level.clamp(self.least, self.most))
    }
}

impl Grid {
    /// The grid of weights `[channels][each]` with the least squared error of those tried.
    ///
    /// Eight bits and a channel use all codes. A scale is increased if the bias would not fit.
    pub(crate) fn fit(
        weights: &[f32],
        bias: &[f32],
        format: WeightFormat,
        input: ActivationScheme,
    ) -> Result<Self, WeightError> {
        let channels = bias.len();
        let each = weights.len() / channels.max(1);
        if channels == 0 || each == 0 {
            return Err(WeightError::Empty { channels, each });
        }
        super::check_length("weights", channels * each, weights.len())?;
        super::check_finite("weight", weights)?;
        super::check_finite("bias", bias)?;
        let groups = format.groups(each);
        let size = format.group().map_or(each, |group| group as usize);
        let widest = weights.iter().fold(0.0_f64, |most, w| most.max(f64::from(*w).abs()));
        let most = f64::from(format.most());
        let (mut scales, mut multipliers, mut zeros) = (Vec::new(), Vec::new(), Vec::new());
        for (channel, &bias) in weights.chunks_exact(each).zip(bias) {
            let fitted: Vec<(f64, u8)> =
                channel.chunks(size).map(|group| fit_group(group, format)).collect();
            let greatest = fitted.iter().fold(0.0_f64, |most, (step, _)| most.max(*step));
            let greatest = match greatest {
                // All weights are zero for any scale; a small one is best for the bias.
                0.0 if bias != 0.0 || format.bits() == 1 => 0.0,
                0.0 if widest > 0.0 => widest / most,
                0.0 => 1.0 / most,
                greatest => greatest,
            };
            let scale = greatest / f64::from(format.most_multiplier());
            let of_bias = f64::from(bias).abs() / (f64::from(input.scale()) * super::BIAS_LIMIT);
            let scale = (scale.max(of_bias) as f32).max(f32::MIN_POSITIVE);
            scales.push(scale);
            for (step, zero) in fitted {
                let multiplier = (step / f64::from(scale)).round_ties_even();
                multipliers.push(multiplier.clamp(1.0, f64::from(format.most_multiplier())) as u8);
                zeros.push(zero);
            }
        }
        debug_assert_eq!(multipliers.len(), channels * groups);
        Ok(Self { format, each, scales, multipliers, zeros })
    }

    /// The levels of a weight.
    #[inline]
    pub(crate) fn levels(&self, channel: usize, weight: usize) -> Levels {
        let group = channel * self.format.groups(self.each) + self.format.group_of(weight);
        let step = f64::from(self.scales[channel]) * f64::from(self.multipliers[group]);
        let (zero, most) = (i32::from(self.zeros[group]), self.format.most());
        let is_sign = self.format.bits() == 1;
        match self.format.is_asymmetric() {
            true => Levels { step, least: -zero, most: most - zero, is_sign },
            false => Levels { step, least: -most, most, is_sign },
        }
    }

    /// The nearest level of every weight, `[channels][each]`.
    pub(crate) fn nearest(&self, weights: &[f32]) -> Vec<i32> {
        let each = self.each;
        let level =
            |(at, &weight): (usize, &f32)| self.levels(at / each, at % each).nearest(weight.into());
        weights.iter().enumerate().map(level).collect()
    }

    /// Levels as the signed bytes that are multiplied.
    pub(crate) fn bytes(&self, levels: &[i32]) -> Vec<i8> {
        let groups = self.format.groups(self.each);
        let byte = |(at, &level): (usize, &i32)| {
            let group = at / self.each * groups + self.format.group_of(at % self.each);
            (level * i32::from(self.multipliers[group])) as i8
        };
        levels.iter().enumerate().map(byte).collect()
    }

    /// The real numbers of levels.
    pub(crate) fn real(&self, levels: &[i32]) -> Vec<f32> {
        let real = |(at, &level): (usize, &i32)| {
            (self.levels(at / self.each, at % self.each).step * f64::from(level)) as f32
        };
        levels.iter().enumerate().map(real).collect()
    }

    /// Biases in steps of a channel's scale and the input's.
    pub(crate) fn biases(&self, bias: &[f32], input: ActivationScheme) -> Vec<i32> {
        let code = |(&bias, &scale): (&f32, &f32)| {
            let step = f64::from(scale) * f64::from(input.scale());
            (f64::from(bias) / step).round_ties_even() as i32
        };
        bias.iter().zip(&self.scales).map(code).collect()
    }
}

/// The step of a group, 0 if it is all zeros, and its zero point.
fn fit_group(weights: &[f32], format: WeightFormat) -> (f64, u8) {
    let (low, high) = weights
        .iter()
        .fold((0.0_f64, 0.0_f64), |(low, high), &w| (low.min(w.into()), high.max(w.into())));
    let greatest = high.max(-low);
    if greatest == 0.0 {
        return (0.0, 0);
    }
    let most = f64::from(format.most());
    match format.bits() {
        // The mean of the magnitudes has the least squared error.
        1 => {
            let sum: f64 = weights.iter().map(|&w| f64::from(w).abs()).sum();
            return (sum / weights.len() as f64, 0);
        }
        // Weights that have a step, as those of a network that was trained to round, keep it.
        _ if !format.is_asymmetric() => {
            let code = super::greatest_code(weights, greatest as f32, format.most());
            match code {
                Some(code) => return (greatest / code, 0),
                None if format.bits() == 8 => return (greatest / most, 0),
                None => {}
            }
        }
        _ => {}
    }
    let mut best = (f64::INFINITY, 0.0, 0);
    for at in 0..FRACTIONS {
        let fraction = 1.0 - (1.0 - LEAST_FRACTION) * at as f64 / (FRACTIONS - 1) as f64;
        let (step, zero) = match format.is_asymmetric() {
            true => {
                let step = fraction * (high - low) / most;
                (step, (-low * fraction / step).round().clamp(0.0, most))
            }
            false => (fraction * greatest / most, 0.0),
        };
        let (zero_code, is_sign) = (zero as i32, false);
        let levels = match format.is_asymmetric() {
            true => Levels { step, least: -zero_code, most: format.most() - zero_code, is_sign },
            false => Levels { step, least: -format.most(), most: format.most(), is_sign },
        };
        let error = |&w: &f32| {
            let w = f64::from(w);
            (w - step * f64::from(levels.nearest(w))).powi(2)
        };
        let error: f64 = weights.iter().map(error).sum();
        if error < best.0 {
            best = (error, step, zero as u8);
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> ActivationScheme {
        ActivationScheme::try_new(0.5, 128).expect("valid")
    }

    fn format(bits: u8) -> WeightFormat {
        WeightFormat::try_new(bits).expect("supported")
    }

    /// The squared error of the best grid of all, in f64.
    fn error(grid: &Grid, weights: &[f32]) -> f64 {
        let given = grid.real(&grid.nearest(weights));
        weights.iter().zip(given).map(|(&a, b)| (f64::from(a) - f64::from(b)).powi(2)).sum()
    }

    fn ramp(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919) % 1009) as f32 / 504.0 - 0.9).collect()
    }

    #[test]
    fn codes_by_hand() {
        // Multiples of a step are exact in every format that has their codes.
        let grid = Grid::fit(&[0.7, -0.3, 0.1, 0.0], &[0.0], format(4), input()).expect("finite");
        assert_eq!(grid.nearest(&[0.7, -0.3, 0.1, 0.0]), [7, -3, 1, 0]);
        let shifted = format(2).try_asymmetric().expect("supported");
        let grid = Grid::fit(&[0.2, 0.1, 0.0, -0.1], &[0.0], shifted, input()).expect("finite");
        assert_eq!(grid.zeros, [1]);
        assert_eq!(grid.nearest(&[0.2, 0.1, 0.0, -0.1]), [2, 1, 0, -1]);
        // The scale of signs is the mean of the magnitudes.
        let grid = Grid::fit(&[0.4, -0.2, 0.0], &[0.0], format(1), input()).expect("finite");
        assert!((grid.scales[0] - 0.2).abs() < 1e-7);
        assert_eq!(grid.nearest(&[0.4, -0.2, 0.0]), [1, -1, 1]);
    }

    #[test]
    fn more_bits_groups_and_zero_points_lose_less() {
        // Groups of very different magnitude, not centered.
        let weights: Vec<f32> = ramp(256)
            .iter()
            .enumerate()
            .map(|(i, w)| (w + 0.5) * if i / 16 % 2 == 0 { 1.0 } else { 0.3 })
            .collect();
        let fitted = |format| {
            let grid = Grid::fit(&weights, &[0.0; 2], format, input()).expect("finite");
            error(&grid, &weights)
        };
        let errors: Vec<f64> = [8, 4, 3, 2, 1].map(|bits| fitted(format(bits))).to_vec();
        assert!(errors.is_sorted(), "{errors:?}");
        for bits in [4, 3, 2] {
            let grouped = format(bits).try_groups_of(16).expect("supported");
            assert!(fitted(grouped) < fitted(format(bits)), "{bits} bits in groups");
            let shifted = format(bits).try_asymmetric().expect("supported");
            assert!(fitted(shifted) < 0.9 * fitted(format(bits)), "{bits} bits with a zero");
        }
    }

    #[test]
    fn bytes_are_the_weights_in_steps_of_the_channels_scale() {
        for format in [
            format(4),
            format(3).try_asymmetric().expect("supported"),
            format(4).try_groups_of(5).expect("supported"),
            format(2).try_groups_of(3).and_then(WeightFormat::try_asymmetric).expect("supported"),
            format(1).try_groups_of(4).expect("supported"),
        ] {
            let weights = ramp(3 * 17);
            let grid = Grid::fit(&weights, &[0.1; 3], format, input()).expect("finite");
            let levels = grid.nearest(&weights);
            let (bytes, real) = (grid.bytes(&levels), grid.real(&levels));
            for (at, (byte, real)) in bytes.iter().zip(real).enumerate() {
                let given = f64::from(*byte) * f64::from(grid.scales[at / 17]);
                assert!((given - f64::from(real)).abs() < 1e-6, "{format}: {given} {real}");
            }
        }
    }
}
