//! Inference with int8 coefficients.

use std::fmt;

use updraft_simd::{Isa, over};

use super::cpu::{QUANTIZED_ROWS, QuantizedJob, STEPS_OF_ONE, STEPS_OF_WEIGHT, Uniform};
use super::geometry::{LayerError, LayerGeometry, Weights, length};
use super::scratch::QuantizedSpace;
use crate::grid::Outside;

/// Outputs per block.
pub(crate) const BLOCK: usize = 16;

/// The four coefficients of each output of a block, in the order of [`TAPS`]: a cache line, so that
/// no vector lies in two.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Coefficients(pub(crate) [[i8; 4]; BLOCK]);

/// The base weights of a block's outputs for two inputs, in a cache line too.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct BaseWeights(pub(crate) [[i16; 2]; BLOCK]);

/// The taps in memory order: the first two and the last two belong to bases that
/// add up to at most 2/3, so that the sum of two products fits 16 bits.
pub(crate) const TAPS: [usize; 4] = [0, 2, 1, 3];

/// With more inputs a sum of 32 bits could overflow: one input adds less than 49,000.
const MOST_INPUTS: usize = 40_000;

/// A cubic layer with int8 coefficients: the four basis values of a sample and their
/// coefficients are one lane of an integer dot product.
///
/// The base branch is computed from integers of 16 bits: its function in 8191 steps up to the
/// largest value among 64 inputs of a sample, its weights in 4095 steps up to the largest of an
/// output. All instruction sets return the same bits.
///
/// # Accuracy
/// The root of the mean squared error is below 1 % of that of the splines' part, for random
/// coefficients, and that of the base branch below a thousandth; a weight far above the others of
/// its output increases their error.
#[derive(Debug, Clone)]
pub struct QuantizedLayer {
    geometry: LayerGeometry,
    uniform: Uniform,
    /// `[tiles][in_features][intervals][blocks of the tile]`.
    splines: Vec<Coefficients>,
    /// `[tiles][pairs of inputs][blocks of the tile]`, or empty.
    base: Vec<BaseWeights>,
    /// The value of one step of a product of basis value and coefficient, `[out_features]`.
    units: Vec<f32>,
    /// The value of one step of a base weight, `[out_features]`.
    base_units: Vec<f32>,
    /// `[out_features]`.
    bias: Vec<f32>,
}

/// Errors of quantizing a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum QuantizeError {
    /// A slice does not fit the layer.
    Layer(LayerError),
    /// Only cubic splines have four non-zero bases at a position.
    Degree {
        /// The layer's.
        degree: usize,
    },
    /// The knots are not uniform, too many or too near.
    Grid,
    /// Splines that are extended outside their domain exceed the range of 8 bits.
    Outside,
    /// Sums could exceed 32 bits.
    Inputs {
        /// The layer's.
        in_features: usize,
        /// The most that fit.
        most: usize,
    },
    /// A base weight, or a coefficient times its factor, is NaN or infinite.
    NotFinite {
        /// The input of its edge.
        input: usize,
        /// The output of its edge.
        output: usize,
    },
}

impl fmt::Display for QuantizeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Layer(ref error) => error.fmt(formatter),
            Self::Degree { degree } => {
                write!(formatter, "int8 needs splines of degree 3, got degree {degree}")
            }
            Self::Grid => formatter.write_str(
                "int8 needs uniform knots, at most 2048 intervals, with a spacing that f32 can \
                 represent",
            ),
            Self::Outside => formatter.write_str(
                "int8 needs splines that are zero or constant outside their domain, got `extend`",
            ),
            Self::Inputs { in_features, most } => {
                write!(formatter, "int8 needs at most {most} inputs, got {in_features}")
            }
            Self::NotFinite { input, output } => write!(
                formatter,
                "a weight of the edge from input {input} to output {output} is not finite"
            ),
        }
    }
}

impl std::error::Error for QuantizeError {}

impl From<LayerError> for QuantizeError {
    fn from(error: LayerError) -> Self {
        Self::Layer(error)
    }
}

/// Work space of [`QuantizedLayer::forward`], reused from call to call.
#[derive(Debug, Clone, Default)]
pub struct QuantizedScratch(Vec<QuantizedSpace>);

impl QuantizedLayer {
    /// Rounds a layer's coefficients, times their factors, to 8 bits over each output's range.
    ///
    /// # Errors
    /// [`QuantizeError`] if a slice does not fit, or the layer is not one of cubic splines over
    /// uniform knots that fade or are constant outside their domain, or a coefficient is not
    /// finite.
    pub fn try_new(geometry: &LayerGeometry, weights: Weights<'_>) -> Result<Self, QuantizeError> {
        geometry.check(&weights, &[])?;
        let grid = geometry.grid();
        if grid.degree() != 3 {
            return Err(QuantizeError::Degree { degree: grid.degree() });
        }
        if grid.outside() == Outside::Extend {
            return Err(QuantizeError::Outside);
        }
        let uniform = Uniform::of(grid).ok_or(QuantizeError::Grid)?;
        let (inputs, outputs) = (geometry.in_features(), geometry.out_features());
        if inputs > MOST_INPUTS {
            return Err(QuantizeError::Inputs { in_features: inputs, most: MOST_INPUTS });
        }
        let edge = |input: usize, output: usize| input * outputs + output;
        let coefficient = |input: usize, basis: usize, output: usize| {
            let factor = weights.scaler.map_or(1.0, |scaler| scaler[edge(input, output)]);
            factor * weights.spline[edge(input * grid.bases() + basis, output)]
        };
        let base_weight = |input: usize, output: usize| {
            weights.base.map_or(0.0, |base| base[edge(input, output)])
        };
        let [mut units, mut base_units] = [(); 2].map(|()| vec![0.0_f32; outputs]);
        for (input, output) in (0..inputs).flat_map(|i| (0..outputs).map(move |o| (i, o))) {
            let sizes = (0..grid.bases()).map(|basis| coefficient(input, basis, output).abs());
            let size = sizes.fold(0.0, larger);
            let base = base_weight(input, output).abs();
            if !(size.is_finite() && base.is_finite()) {
                return Err(QuantizeError::NotFinite { input, output });
            }
            units[output] = units[output].max(size / 127.0);
            base_units[output] = base_units[output].max(base / STEPS_OF_WEIGHT);
        }

        let blocks = outputs.div_ceil(BLOCK);
        let windows = grid.intervals();
        let pairs = inputs.div_ceil(2);
        let mut splines = vec![Coefficients([[0; 4]; BLOCK]); blocks * inputs * windows];
        let mut base =
            vec![BaseWeights([[0; 2]; BLOCK]); weights.base.map_or(0, |_| blocks * pairs)];
        for tile in tiles(outputs) {
            let (first, width) = (tile.start / BLOCK, tile.len() / BLOCK);
            for input in 0..inputs {
                // Weights that are all 0 result in 0/0, which is 0 as an integer.
                for (column, output) in tile.clone().take_while(|&at| at < outputs).enumerate() {
                    let (block, lane) = (column / BLOCK, column % BLOCK);
                    for window in 0..windows {
                        let at = (first * inputs + input * width) * windows + window * width;
                        splines[at + block].0[lane] = TAPS.map(|tap| {
                            let share = coefficient(input, window + tap, output) / units[output];
                            share.round() as i8
                        });
                    }
                    if !base.is_empty() {
                        let at = first * pairs + input / 2 * width;
                        let share = base_weight(input, output) / base_units[output];
                        base[at + block].0[lane][input % 2] = share.round() as i16;
                    }
                }
            }
        }
        units.iter_mut().for_each(|unit| *unit /= STEPS_OF_ONE);
        let bias = weights.bias.map_or_else(|| vec![0.0; outputs], <[f32]>::to_vec);
        Ok(Self { geometry: geometry.clone(), uniform, splines, base, units, base_units, bias })
    }

    /// Computes the layer's outputs `y`, `[batch, out_features]`, from `x`, `[batch,
    /// in_features]`: the same bits on every instruction set and for any number of threads; 0 means
    /// 1.
    ///
    /// NaN in `x` propagates to every output of its sample; so does infinity, if the base branch's
    /// function has no finite value there.
    ///
    /// # Errors
    /// [`LayerError`] if a slice does not fit or the CPU lacks the instructions; nothing has been
    /// written then.
    pub fn forward(
        &self,
        isa: Isa,
        x: &[f32],
        y: &mut [f32],
        scratch: &mut QuantizedScratch,
        threads: usize,
    ) -> Result<(), LayerError> {
        if !isa.is_available() {
            return Err(LayerError::Isa { isa });
        }
        let (inputs, outputs) = (self.geometry.in_features(), self.geometry.out_features());
        let batch = self.geometry.samples(x)?;
        length("y", batch.saturating_mul(outputs), y)?;
        let threads = updraft_simd::threads(threads);
        if scratch.0.len() < threads {
            scratch.0.resize_with(threads, QuantizedSpace::default);
        }
        let of_thread = batch.div_ceil(threads);
        let rows = of_thread.clamp(1, QUANTIZED_ROWS);
        let jobs = x.chunks(rows * inputs).zip(y.chunks_mut(rows * outputs));
        over(jobs.collect::<Vec<_>>(), &mut scratch.0[..threads], |_, (x, y), space| {
            let Self { geometry, uniform, splines, base, units, base_units, bias } = self;
            let uniform = *uniform;
            QuantizedJob { geometry, uniform, splines, base, units, base_units, bias, x }
                .run(isa, y, space);
        });
        Ok(())
    }

    /// Bytes of the coefficients, base weights and biases.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.splines.as_slice())
            + size_of_val(self.base.as_slice())
            + 4 * (self.units.len() + self.base_units.len() + self.bias.len())
    }
}

/// The larger of two numbers, NaN if there is one.
fn larger(a: f32, b: f32) -> f32 {
    if b.is_nan() || b > a { b } else { a }
}

/// The outputs that are computed together: four blocks, then one at a time; the last block may
/// reach beyond the outputs.
pub(crate) fn tiles(outputs: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let padded = outputs.next_multiple_of(BLOCK);
    let mut first = 0;
    std::iter::from_fn(move || {
        let left = (padded - first) / BLOCK;
        let blocks = *[4, 1].iter().find(|&&blocks| blocks <= left)?;
        let tile = first..first + blocks * BLOCK;
        first = tile.end;
        Some(tile)
    })
}

#[cfg(test)]
mod tests {
    use updraft_testing::scattered;

    use super::*;
    use crate::grid::Grid;
    use crate::kernels::{Activation, evaluate};

    fn layer(inputs: usize, outputs: usize, outside: Outside) -> LayerGeometry {
        let grid = Grid::uniform(-1.0, 1.0, 6, 3).unwrap().with_outside(outside);
        LayerGeometry::try_new(grid, inputs, outputs, Activation::Silu).unwrap()
    }

    fn run(layer: &QuantizedLayer, isa: Isa, x: &[f32], outputs: usize) -> Vec<f32> {
        run_on(2, layer, isa, x, outputs)
    }

    fn run_on(
        threads: usize,
        layer: &QuantizedLayer,
        isa: Isa,
        x: &[f32],
        outputs: usize,
    ) -> Vec<f32> {
        let mut y = vec![7.0; x.len() / layer.geometry.in_features() * outputs];
        layer.forward(isa, x, &mut y, &mut QuantizedScratch::default(), threads).unwrap();
        y
    }

    #[test]
    fn every_path_gives_the_same_bits() {
        for (inputs, outputs) in [(1, 1), (5, 16), (33, 80), (70, 67), (21, 200)] {
            for outside in [Outside::Zero, Outside::Clamp] {
                let geometry = layer(inputs, outputs, outside);
                let spline = scattered(1, inputs * 9 * outputs);
                let [base, scaler] = [2, 3].map(|seed| scattered(seed, inputs * outputs));
                let bias = scattered(4, outputs);
                let weights = Weights {
                    spline: &spline,
                    base: Some(&base),
                    scaler: Some(&scaler),
                    bias: Some(&bias),
                };
                let quantized = QuantizedLayer::try_new(&geometry, weights).unwrap();
                let mut x: Vec<f32> =
                    scattered(5, 301 * inputs).iter().map(|value| value * 2.5).collect();
                x[0] = f32::NAN;
                let portable = run(&quantized, Isa::Portable, &x, outputs);
                assert!(portable[..outputs].iter().all(|value| value.is_nan()));
                assert!(portable[outputs..].iter().all(|value| value.is_finite()));
                let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
                for isa in paths() {
                    let y = run(&quantized, isa, &x, outputs);
                    assert_eq!(bits(&portable), bits(&y), "{}", isa.name());
                    for threads in [1, 3] {
                        let others = run_on(threads, &quantized, isa, &x, outputs);
                        assert_eq!(bits(&y), bits(&others), "{threads} threads");
                    }
                }
            }
        }
    }

    fn paths() -> impl Iterator<Item = Isa> {
        Isa::DOTS.into_iter().filter(|isa| isa.is_available())
    }

    #[test]
    fn the_largest_products_of_bytes_do_not_saturate() {
        let x: Vec<f32> = (0..40_000_u16).map(|step| f32::from(step) / 14_000.0 - 1.4).collect();
        for outside in [Outside::Zero, Outside::Clamp] {
            let geometry = layer(1, 16, outside);
            let spline: Vec<f32> = (0..9 * 16).map(|at| [1.0, -1.0][at % 16 % 2]).collect();
            let weights = Weights { spline: &spline, ..Weights::default() };
            let quantized = QuantizedLayer::try_new(&geometry, weights).unwrap();
            let portable = run(&quantized, Isa::Portable, &x, 16);
            for isa in paths() {
                assert!(run(&quantized, isa, &x, 16) == portable, "{}", isa.name());
            }
            assert!(portable.iter().fold(0.0_f32, |most, y| most.max(y.abs())) > 0.99);
        }
    }

    /// The root mean squared error, relative to the root mean square.
    fn share(exact: &[f32], rounded: &[f32]) -> f64 {
        let squares =
            |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v * v)).sum::<f64>();
        let error = squares(&mut exact.iter().zip(rounded).map(|(a, b)| a - b));
        (error / squares(&mut exact.iter().copied())).sqrt()
    }

    #[test]
    fn the_error_is_below_a_hundredth_of_the_splines() {
        let geometry = layer(96, 40, Outside::Zero);
        let spline = scattered(1, 96 * 9 * 40);
        let weights = Weights { spline: &spline, ..Weights::default() };
        let x: Vec<f32> = scattered(5, 300 * 96).iter().map(|value| value * 1.3).collect();
        let exact = evaluate(&geometry, weights, &x).unwrap();
        let quantized = QuantizedLayer::try_new(&geometry, weights).unwrap();
        let rounded = run(&quantized, Isa::detect(), &x, 40);
        let share = share(&exact, &rounded);
        assert!(share < 1e-2, "{share}");
    }

    #[test]
    fn the_error_of_the_base_branch_is_below_a_thousandth() {
        for inputs in [1, 33, 131] {
            let geometry = layer(inputs, 40, Outside::Zero);
            let (spline, base) = (vec![0.0; inputs * 9 * 40], scattered(1, inputs * 40));
            let weights = Weights { spline: &spline, base: Some(&base), ..Weights::default() };
            let x: Vec<f32> = scattered(5, 300 * inputs).iter().map(|value| value * 3.0).collect();
            let exact = evaluate(&geometry, weights, &x).unwrap();
            let quantized = QuantizedLayer::try_new(&geometry, weights).unwrap();
            let rounded = run(&quantized, Isa::detect(), &x, 40);
            let share = share(&exact, &rounded);
            assert!(share < 1e-3, "{inputs} inputs: {share}");
        }
    }

    #[test]
    fn what_a_sample_sees_touches_no_other_sample() {
        let geometry = layer(5, 3, Outside::Zero);
        let (spline, base) = (scattered(1, 5 * 9 * 3), scattered(2, 5 * 3));
        let weights = Weights { spline: &spline, base: Some(&base), ..Weights::default() };
        let splines_alone = Weights { spline: &spline, ..Weights::default() };
        let quantized = QuantizedLayer::try_new(&geometry, weights).unwrap();
        let without_base = QuantizedLayer::try_new(&geometry, splines_alone).unwrap();
        let x = scattered(5, 20 * 5);
        for isa in paths() {
            let usual = run(&quantized, isa, &x, 3);
            for odd in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e30, 1e-44, 0.0] {
                let mut changed = x.clone();
                changed[7 * 5..][..5].fill(odd);
                let y = run(&quantized, isa, &changed, 3);
                assert_eq!((&y[..21], &y[24..]), (&usual[..21], &usual[24..]), "{odd}");
                let own = &y[21..24];
                if odd.is_finite() {
                    assert!(own.iter().all(|y| y.is_finite()), "{odd}: {own:?}");
                } else {
                    assert!(own.iter().all(|y| y.is_nan()), "{odd}: {own:?}");
                }
                let y = run(&without_base, isa, &changed, 3);
                assert!(y.iter().all(|y| y.is_finite() || odd.is_nan()), "{odd}");
            }
        }
    }

    #[test]
    fn a_spline_of_equal_coefficients_is_nearly_exact() {
        let geometry = layer(1, 1, Outside::Clamp);
        let weights = Weights { spline: &[0.5; 9], ..Weights::default() };
        let quantized = QuantizedLayer::try_new(&geometry, weights).unwrap();
        for y in run(&quantized, Isa::detect(), &scattered(1, 100), 1) {
            assert!((y - 0.5).abs() < 0.5 * 2.0 / STEPS_OF_ONE, "{y}");
        }
        let zero = Weights { spline: &[0.0; 9], ..Weights::default() };
        let quantized = QuantizedLayer::try_new(&geometry, zero).unwrap();
        assert_eq!(run(&quantized, Isa::detect(), &[0.3], 1), [0.0]);
    }

    #[test]
    fn layers_that_int8_cannot_represent_are_refused() {
        let refused = |geometry: &LayerGeometry, spline: &[f32]| {
            let weights = Weights { spline, ..Weights::default() };
            QuantizedLayer::try_new(geometry, weights).unwrap_err().to_string()
        };
        let spline = [0.5; 18];
        let extend = layer(1, 2, Outside::Extend);
        assert!(refused(&extend, &spline).ends_with("got `extend`"));
        let usual = layer(1, 2, Outside::Zero);
        assert_eq!(refused(&usual, &spline[1..]), "expected 18 numbers in `spline`, got 17");
        let mut broken = spline;
        broken[3] = f32::INFINITY;
        let expected = "a weight of the edge from input 0 to output 1 is not finite";
        assert_eq!(refused(&usual, &broken), expected);
        let grid = Grid::uniform(-1.0, 1.0, 7, 2).unwrap();
        let square = LayerGeometry::try_new(grid, 1, 2, Activation::Silu).unwrap();
        assert_eq!(refused(&square, &spline), "int8 needs splines of degree 3, got degree 2");
        let knots: Vec<f32> = (0..13_u8).map(f32::from).collect();
        let grid = Grid::per_feature(1, knots, 6, 3).unwrap();
        let uneven = LayerGeometry::try_new(grid, 1, 2, Activation::Silu).unwrap();
        assert!(refused(&uneven, &spline).starts_with("int8 needs uniform knots"));
    }
}
