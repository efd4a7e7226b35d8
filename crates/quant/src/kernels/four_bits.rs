//! Products of f32 activations with weights of four bits.

use updraft_simd::{Isa, Uneven, over, threads};

use super::cpu::{FOUR_BIT_BLOCK as BLOCK, FourBitJob, FourBitSteps};
use crate::scheme::ActivationScheme;
use crate::weights::{Coding, Grid, WeightError, WeightFormat, check_finite};

/// Codes in a number.
const CODES: usize = 8;

/// The fewest weights of a thread: less take about the time of waking it.
const WORTH_A_THREAD: usize = 1 << 17;

/// A fully connected layer with weights of four bits, which are converted to f32 as they are
/// multiplied.
///
/// `y[m,n] = Σ_k x[m,k]·w[n,k] + bias[n]`, in f32. For one row and weights that exceed the cache,
/// reading the weights takes the time, and four bits take an eighth of it. For many rows, products
/// in int8 or f32 are faster, because weights are converted again for each row.
///
/// # Example
/// ```
/// use updraft_quant::WeightFormat;
/// use updraft_quant::slices::{FourBitLinear, Isa};
///
/// let format = WeightFormat::try_new(4)?.try_groups_of(32)?;
/// let weights: Vec<f32> = (0..3 * 64).map(|i| (i % 13) as f32 / 6.0 - 1.0).collect();
/// let layer = FourBitLinear::try_new(&weights, &[0.0, 0.5, 1.0], format)?;
/// let mut y = [0.0; 3];
/// layer.run(Isa::detect(), &[0.5; 64], &mut y, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FourBitLinear {
    /// `[blocks][numbers of eight codes]`, for each output of a block; the last block and the last
    /// number may be padded.
    codes: Vec<[u32; BLOCK]>,
    /// `[blocks][groups]`.
    steps: Vec<FourBitSteps>,
    bias: Vec<f32>,
    inputs: usize,
    /// Weights of a group, a multiple of eight or all inputs.
    group: usize,
}

/// Errors of a layer with weights of four bits.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FourBitError {
    /// Weights of other bits.
    #[error("weights of {bits} bits, but this kernel multiplies weights of 4 bits")]
    Bits {
        /// The bits.
        bits: u8,
    },
    /// Groups that are not whole numbers of eight weights.
    #[error("groups of {group} weights, but this kernel has groups of a multiple of 8")]
    Group {
        /// The weights of a group.
        group: u32,
    },
    /// The weights cannot be quantized.
    #[error(transparent)]
    Weights(#[from] WeightError),
}

impl FourBitLinear {
    /// Rounds weights `[outputs][inputs]` to the nearest codes and packs them.
    ///
    /// # Errors
    /// [`FourBitError`] for formats of other bits, groups that are not a multiple of eight, another
    /// length, or NaN and infinity.
    #[expect(clippy::missing_panics_doc, reason = "1 is a valid scale")]
    pub fn try_new(
        weights: &[f32],
        bias: &[f32],
        format: WeightFormat,
    ) -> Result<Self, FourBitError> {
        Self::check(format)?;
        // Biases stay in f32 here, and decide no scale.
        let input = ActivationScheme::try_new(1.0, 0).expect("a normal number");
        let grid = Grid::fit(weights, &vec![0.0; bias.len()], format, input)?;
        check_finite("bias", bias)?;
        let values = grid.bytes(&grid.nearest(weights));
        Ok(Self::packed(&values, &grid.scales, &Coding::from(&grid), bias.to_vec()))
    }

    /// Whether the kernel multiplies weights of a format.
    pub(crate) fn check(format: WeightFormat) -> Result<(), FourBitError> {
        if format.bits() != 4 {
            return Err(FourBitError::Bits { bits: format.bits() });
        }
        match format.group().filter(|group| group % CODES as u32 != 0) {
            Some(group) => Err(FourBitError::Group { group }),
            None => Ok(()),
        }
    }

    /// Packs integer weights `[outputs][inputs]` of a format that [`check`](Self::check) accepts.
    pub(crate) fn packed(values: &[i8], scales: &[f32], coding: &Coding, bias: Vec<f32>) -> Self {
        let (outputs, inputs, format) = (scales.len(), coding.each, coding.format);
        let (numbers, groups) = (inputs.div_ceil(CODES), format.groups(inputs));
        let blocks = outputs.div_ceil(BLOCK);
        let mut codes = vec![[0; BLOCK]; blocks * numbers];
        let mut steps = vec![FourBitSteps::default(); blocks * groups];
        for output in 0..outputs {
            let (block, lane) = (output / BLOCK, output % BLOCK);
            for input in 0..inputs {
                let code = coding.code(output, input, values[output * inputs + input]);
                let number = &mut codes[block * numbers + input / CODES][lane];
                *number |= u32::from(code) << (4 * (input % CODES));
            }
            for group in 0..groups {
                let [step, least] = coding.step_and_least(output * groups + group);
                let (step, scale) = (f64::from(step), f64::from(scales[output]));
                let of_group = &mut steps[block * groups + group];
                of_group.step[lane] = (scale * step) as f32;
                of_group.least[lane] = (scale * step * f64::from(least)) as f32;
            }
        }
        let group = format.group().map_or(inputs, |group| group as usize);
        Self { codes, steps, bias, inputs, group }
    }

    /// Numbers of a row of the input, and of the output.
    #[must_use]
    pub fn features(&self) -> [usize; 2] {
        [self.inputs, self.bias.len()]
    }

    /// Bytes of the packed weights, their steps and the biases.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&self.codes[..]) + size_of_val(&self.steps[..]) + size_of_val(&self.bias[..])
    }

    /// The weights as they are multiplied, `[outputs][inputs]`.
    #[must_use]
    pub fn weights(&self) -> Vec<f32> {
        let [inputs, outputs] = self.features();
        let (numbers, groups) = (inputs.div_ceil(CODES), inputs.div_ceil(self.group));
        let weight = |at: usize| {
            let (output, input) = (at / inputs, at % inputs);
            let (block, lane) = (output / BLOCK, output % BLOCK);
            let number = self.codes[block * numbers + input / CODES][lane];
            let code = number >> (4 * (input % CODES)) & 15;
            let steps = &self.steps[block * groups + input / self.group];
            steps.step[lane].mul_add(code as f32, steps.least[lane])
        };
        (0..inputs * outputs).map(weight).collect()
    }

    /// Computes `[rows][outputs]`.
    ///
    /// The numbers of threads and of rows change no result; instruction sets differ by rounding.
    ///
    /// # Panics
    /// If a slice holds no whole number of rows or the two differ, or the CPU does not have `isa`.
    pub fn run(&self, isa: Isa, x: &[f32], y: &mut [f32], asked_threads: usize) {
        let [inputs, outputs] = self.features();
        let rows = x.len() / inputs;
        assert_eq!(x.len(), rows * inputs, "whole rows of the input");
        assert_eq!(y.len(), rows * outputs, "numbers of the output");
        let threads = threads(asked_threads).min(1 + inputs * outputs / WORTH_A_THREAD);
        let blocks = outputs.div_ceil(BLOCK);
        let share = blocks.div_ceil(threads);
        let starts = |part: usize| (part * share * BLOCK).min(outputs);
        let (numbers, groups) = (inputs.div_ceil(CODES), inputs.div_ceil(self.group));
        let vectors = isa.vectors();
        for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact_mut(outputs)) {
            let mut states = vec![(); threads];
            over(Uneven::new(y, blocks.div_ceil(share), starts), &mut states, |part, y, ()| {
                let first = part * share;
                let end = (first + share).min(blocks);
                vectors.run(FourBitJob {
                    codes: &self.codes[first * numbers..end * numbers],
                    steps: &self.steps[first * groups..end * groups],
                    bias: &self.bias[starts(part)..][..y.len()],
                    group: self.group,
                    x,
                    y,
                });
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern.
    fn numbers(seed: u32, count: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn format(group: Option<u32>, is_asymmetric: bool) -> WeightFormat {
        let mut format = WeightFormat::try_new(4).expect("supported");
        if let Some(group) = group {
            format = format.try_groups_of(group).expect("supported");
        }
        if is_asymmetric { format.try_asymmetric().expect("supported") } else { format }
    }

    /// Every instruction set against sums in f64 of the same weights.
    fn check(rows: usize, [inputs, outputs]: [usize; 2], format: WeightFormat, threads: usize) {
        let (weights, bias) = (numbers(1, inputs * outputs), numbers(2, outputs));
        let layer = FourBitLinear::try_new(&weights, &bias, format).expect("finite");
        let x = numbers(3, rows * inputs);
        let given = layer.weights();
        let right = |row: usize, output: usize| -> (f64, f64) {
            let products = x[row * inputs..][..inputs].iter().zip(&given[output * inputs..]);
            let products = products.map(|(&x, &w)| f64::from(x) * f64::from(w));
            let size: f64 = products.clone().map(f64::abs).sum();
            (products.sum::<f64>() + f64::from(bias[output]), size)
        };
        let sets = [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Neon];
        for isa in sets.into_iter().filter(|isa| isa.is_available()) {
            let mut y = vec![f32::NAN; rows * outputs];
            layer.run(isa, &x, &mut y, threads);
            for (at, &y) in y.iter().enumerate() {
                let (right, size) = right(at / outputs, at % outputs);
                // Codes are summed before their least level is subtracted.
                let tolerance = 1e-5 * (1.0 + 15.0 * size);
                assert!(
                    (f64::from(y) - right).abs() < tolerance,
                    "{isa} {inputs}×{outputs} {format} [{at}]: {y} {right}"
                );
            }
        }
    }

    #[test]
    fn products_of_every_size_are_those_of_the_reference() {
        for inputs in [1, 7, 8, 9, 31, 32, 33, 64, 100, 257] {
            for outputs in [1, 15, 16, 17, 40] {
                for is_asymmetric in [false, true] {
                    check(1, [inputs, outputs], format(None, is_asymmetric), 1);
                    check(2, [inputs, outputs], format(Some(8), is_asymmetric), 1);
                    check(1, [inputs, outputs], format(Some(32), is_asymmetric), 1);
                    check(4, [inputs, outputs], format(Some(8), is_asymmetric), 1);
                    check(9, [inputs, outputs], format(None, is_asymmetric), 3);
                }
            }
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_number() {
        let [inputs, outputs] = [512, 1030];
        let weights = numbers(4, inputs * outputs);
        let layer = FourBitLinear::try_new(&weights, &vec![0.5; outputs], format(Some(64), false));
        let (layer, x) = (layer.expect("finite"), numbers(5, inputs));
        let run = |threads: usize| {
            let mut y = vec![0.0; outputs];
            layer.run(Isa::detect(), &x, &mut y, threads);
            y
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn rows_have_the_numbers_that_each_has_alone() {
        let [inputs, outputs] = [83, 41];
        let weights = numbers(7, inputs * outputs);
        let layer = FourBitLinear::try_new(&weights, &vec![0.25; outputs], format(Some(16), true));
        let (layer, x) = (layer.expect("finite"), numbers(8, 9 * inputs));
        let sets = [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Neon];
        for isa in sets.into_iter().filter(|isa| isa.is_available()) {
            let (mut together, mut alone) = (vec![0.0; 9 * outputs], vec![0.0; 9 * outputs]);
            layer.run(isa, &x, &mut together, 2);
            for (x, y) in x.chunks(inputs).zip(alone.chunks_mut(outputs)) {
                layer.run(isa, x, y, 1);
            }
            assert_eq!(together, alone, "{isa}");
        }
    }

    #[test]
    fn weights_are_those_of_the_grid() {
        let (weights, format) = (numbers(6, 3 * 40), format(Some(16), true));
        let input = ActivationScheme::try_new(1.0, 0).expect("valid");
        let grid = Grid::fit(&weights, &[0.0; 3], format, input).expect("finite");
        let layer = FourBitLinear::try_new(&weights, &[0.0; 3], format).expect("finite");
        for (a, b) in grid.real(&grid.nearest(&weights)).iter().zip(layer.weights()) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn other_formats_are_refused() {
        let new = |format| FourBitLinear::try_new(&[1.0; 32], &[0.0], format).expect_err("refused");
        let three = WeightFormat::try_new(3).expect("supported");
        assert_eq!(new(three), FourBitError::Bits { bits: 3 });
        assert_eq!(new(format(Some(12), false)), FourBitError::Group { group: 12 });
        let bad = FourBitLinear::try_new(&[f32::NAN; 8], &[0.0], format(None, false));
        assert!(matches!(bad, Err(FourBitError::Weights(WeightError::NotFinite { .. }))));
        let bad = FourBitLinear::try_new(&[1.0; 8], &[f32::NAN], format(None, false));
        assert!(matches!(bad, Err(FourBitError::Weights(WeightError::NotFinite { .. }))));
    }
}
