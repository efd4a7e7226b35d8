//! Batch normalization: by the statistics of the batch itself, or by given ones.

use std::ops::Range;

use updraft_simd::{Cut, Isa, Pieces, over, threads};

use super::columns;
use super::gradient_pass::GradientPass;
use super::plane::{self, Line};
use super::row::{self, Columns};
use crate::kernels::elementwise::Activation;
use crate::kernels::scratch::Scratch;

/// The shape `[batch, channels, pixels]` of a contiguous tensor that is normalized channel by
/// channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchNormShape {
    /// Samples.
    pub batch: usize,
    /// Channels, each with its own statistics.
    pub channels: usize,
    /// Numbers of a sample in a channel.
    pub pixels: usize,
}

impl BatchNormShape {
    /// Numbers in the tensor.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.batch * self.channels * self.pixels
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of values of a channel's statistics.
    pub(crate) const fn count(&self) -> usize {
        self.batch * self.pixels
    }

    /// Whether a feature map has too few pixels to be computed alone: all those of a sample are
    /// computed at once.
    pub(super) const fn has_few_pixels(&self) -> bool {
        self.pixels < FEW
    }

    /// The numbers of the pieces that a result is computed in: a feature map, or all of a sample.
    pub(crate) const fn piece(&self) -> usize {
        if self.has_few_pixels() { self.channels * self.pixels } else { self.pixels }
    }

    /// The range of a piece in the tensor.
    pub(super) const fn range(&self, index: usize) -> Range<usize> {
        index * self.piece()..(index + 1) * self.piece()
    }
}

/// The least number of pixels for which a feature map is computed alone: two of the widest vectors.
pub(super) const FEW: usize = 32;

/// How a batch is normalized:
/// `y = activation((x − mean)/√(variance + epsilon)·gamma + beta + residual)`.
#[derive(Debug, Clone, Copy)]
pub struct Normalization<'a> {
    /// One factor per channel.
    pub gamma: &'a [f32],
    /// One summand per channel.
    pub beta: &'a [f32],
    /// Added to the variance.
    pub epsilon: f64,
    /// A tensor of the input's size that is added before the activation.
    pub residual: Option<&'a [f32]>,
    /// The activation.
    pub activation: Activation,
}

/// The statistics of a batch, one per channel.
#[derive(Debug)]
pub struct Statistics<'a> {
    /// The mean.
    pub mean: &'a mut [f32],
    /// The variance over the batch, without Bessel's correction.
    pub variance: &'a mut [f32],
}

/// Normalizes a batch by its own statistics, which are returned in `statistics`.
///
/// Means and variances are summed in f64 over feature maps that are summed in f32 by 32 lanes; below 32
/// pixels over 32 samples that are summed in f32 pixel by pixel.
///
/// # Panics
/// If the length of a slice differs from `shape`, the tensor is empty, or the CPU
/// does not have `isa`.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn batch_norm(
    isa: Isa,
    shape: BatchNormShape,
    by: Normalization<'_>,
    x: &[f32],
    y: &mut [f32],
    statistics: Statistics<'_>,
    scratch: &mut Scratch,
    threads: usize,
) {
    check(shape, &by, &[x.len(), y.len()]);
    let Statistics { mean, variance } = statistics;
    moments(isa, shape, x, [&mut *mean, &mut *variance], scratch, threads);
    apply_into(isa, shape, by, [mean, variance], x, Cut::new(y, shape.piece()), threads);
}

/// The mean and variance of each channel.
pub(crate) fn moments(
    isa: Isa,
    shape: BatchNormShape,
    x: &[f32],
    [means, variances]: [&mut [f32]; 2],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert!(!shape.is_empty(), "an empty tensor has no statistics");
    assert_eq!(means.len(), shape.channels, "one mean for each channel");
    assert_eq!(variances.len(), shape.channels, "one variance for each channel");
    let vectors = isa.vectors();
    if shape.has_few_pixels() {
        return columns::moments(vectors, shape, x, [means, variances], asked_threads);
    }
    let mut states = vec![(); threads(asked_threads)];
    let partial = scratch.wide(2 * shape.batch * shape.channels);
    over(Cut::new(partial, 2), &mut states, |plane, partial, ()| {
        partial.copy_from_slice(&plane::moments(vectors, &x[shape.range(plane)]));
    });
    for channel in 0..shape.channels {
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for sample in 0..shape.batch {
            let at = 2 * (sample * shape.channels + channel);
            // Chan, Golub and LeVeque 1979, equation 2.1.
            let (more, difference) = (shape.pixels as f64, partial[at] - mean);
            let total = count + more;
            mean += difference * more / total;
            squares += partial[at + 1] + difference * difference * count * more / total;
            count = total;
        }
        means[channel] = mean as f32;
        variances[channel] = (squares / count) as f32;
    }
}

/// Normalizes by statistics into pieces of [`BatchNormShape::piece`] numbers.
pub(crate) fn apply_into<'a>(
    isa: Isa,
    shape: BatchNormShape,
    by: Normalization<'_>,
    [mean, variance]: [&[f32]; 2],
    x: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    asked_threads: usize,
) {
    check(shape, &by, &[x.len()]);
    let vectors = isa.vectors();
    let lines = lines(&by, mean, variance);
    let mut states = vec![(); threads(asked_threads)];
    let inputs = |piece| {
        let range = shape.range(piece);
        (&x[range.clone()], by.residual.map(|residual| &residual[range]))
    };
    if shape.has_few_pixels() {
        let columns = Columns::new(&lines, by.activation, shape.pixels);
        return over(y, &mut states, |sample, y, ()| {
            let (x, residual) = inputs(sample);
            row::apply(vectors, &columns, x, residual, y);
        });
    }
    over(y, &mut states, |plane, y, ()| {
        let (x, residual) = inputs(plane);
        plane::apply(vectors, lines[plane % shape.channels], x, residual, y);
    });
}

/// The gradients of a normalization, for the loss `Σ y·dy`.
#[derive(Debug)]
pub struct NormGradients<'a> {
    /// Of the input.
    pub dx: &'a mut [f32],
    /// Of the factors.
    pub dgamma: &'a mut [f32],
    /// Of the summands.
    pub dbeta: &'a mut [f32],
    /// Of the residual, if there is one.
    pub dresidual: Option<&'a mut [f32]>,
}

/// The source of the statistics of a normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatisticsOf {
    /// The batch itself: they depend on the input.
    Batch,
    /// Given: they do not depend on the input.
    Others,
}

/// The gradients of [`batch_norm`], from its input and the statistics that it returned.
///
/// # Panics
/// If the length of a slice differs from `shape`, the tensor is empty, a residual has no
/// gradient or the reverse, or the CPU does not have `isa`.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn batch_norm_gradient(
    isa: Isa,
    shape: BatchNormShape,
    by: Normalization<'_>,
    statistics: [&[f32]; 2],
    x: &[f32],
    dy: &[f32],
    gradients: NormGradients<'_>,
    scratch: &mut Scratch,
    threads: usize,
) {
    let of = StatisticsOf::Batch;
    gradients_of(isa, shape, by, of, statistics, x, dy, gradients, scratch, threads);
}

#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
fn gradients_of(
    isa: Isa,
    shape: BatchNormShape,
    by: Normalization<'_>,
    of: StatisticsOf,
    statistics: [&[f32]; 2],
    x: &[f32],
    dy: &[f32],
    gradients: NormGradients<'_>,
    scratch: &mut Scratch,
    threads: usize,
) {
    let NormGradients { dx, dgamma, dbeta, dresidual } = gradients;
    check(shape, &by, &[x.len(), dy.len(), dx.len()]);
    let vectors = [dgamma, dbeta];
    let pass =
        GradientPass::new(isa, shape, by, of, statistics, [x, dy], vectors, scratch, threads);
    let dx = Cut::new(dx, shape.piece());
    match dresidual {
        None => pass.input(dx),
        Some(dresidual) => {
            assert_eq!(dresidual.len(), shape.len(), "numbers of the residual's gradient");
            pass.input_and_residual((dx, Cut::new(dresidual, shape.piece())));
        }
    }
}

pub(super) fn check(shape: BatchNormShape, by: &Normalization<'_>, lengths: &[usize]) {
    assert!(!shape.is_empty(), "an empty tensor has no statistics");
    assert!(lengths.iter().all(|&length| length == shape.len()), "numbers of the tensors");
    let residual = by.residual.map_or(shape.len(), <[f32]>::len);
    assert_eq!(residual, shape.len(), "numbers of the residual");
    assert_eq!(by.gamma.len(), shape.channels, "one gamma for each channel");
    assert_eq!(by.beta.len(), shape.channels, "one beta for each channel");
}

pub(super) fn lines(by: &Normalization<'_>, mean: &[f32], variance: &[f32]) -> Vec<Line> {
    assert_eq!(mean.len(), by.gamma.len(), "one mean for each channel");
    assert_eq!(variance.len(), by.gamma.len(), "one variance for each channel");
    let spread = |variance: f32| (f64::from(variance) + by.epsilon).sqrt();
    (0..mean.len())
        .map(|channel| Line {
            mean: mean[channel],
            scale: (f64::from(by.gamma[channel]) / spread(variance[channel])) as f32,
            shift: by.beta[channel],
            activation: by.activation,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use updraft_testing::{normal, scattered};

    use super::*;

    fn numbers(seed: u32, count: usize, offset: f32) -> Vec<f32> {
        scattered(seed, count).into_iter().map(|number| number + offset).collect()
    }

    /// `[y, mean, variance, dx, dgamma, dbeta, dresidual]`.
    type All<T> = [Vec<T>; 7];

    struct Case {
        shape: BatchNormShape,
        activation: Activation,
        of: StatisticsOf,
        x: Vec<f32>,
        dy: Vec<f32>,
        residual: Option<Vec<f32>>,
        gamma: Vec<f32>,
        beta: Vec<f32>,
    }

    const EPSILON: f64 = 1e-5;

    const ALL: [Activation; 7] = [
        Activation::Identity,
        Activation::Relu,
        Activation::Silu,
        Activation::Elu,
        Activation::Relu6,
        Activation::HardSwish,
        Activation::Gelu,
    ];

    impl Case {
        fn new([batch, channels, pixels]: [usize; 3], activation: Activation, offset: f32) -> Self {
            let shape = BatchNormShape { batch, channels, pixels };
            Self {
                shape,
                activation,
                of: StatisticsOf::Batch,
                residual: None,
                x: numbers(1, shape.len(), offset),
                dy: numbers(2, shape.len(), 0.0),
                gamma: numbers(3, channels, 1.5),
                beta: numbers(4, channels, 0.0),
            }
        }

        fn with_residual(self) -> Self {
            Self { residual: Some(numbers(5, self.shape.len(), 0.0)), ..self }
        }

        /// Normalized by statistics that are not its own.
        fn by_others(self) -> Self {
            Self { of: StatisticsOf::Others, ..self }
        }

        /// Statistics of another batch.
        fn others(&self) -> [Vec<f32>; 2] {
            [numbers(6, self.shape.channels, 0.2), numbers(7, self.shape.channels, 1.5)]
        }

        fn run(&self, isa: Isa, threads: usize) -> All<f32> {
            let Self { shape, activation, of, x, dy, residual, gamma, beta } = self;
            let residual = residual.as_deref();
            let activation = *activation;
            let by = Normalization { gamma, beta, epsilon: EPSILON, residual, activation };
            let mut scratch = Scratch::new();
            scratch.wide(1 << 12).fill(f64::NAN);
            let [mut y, mut dx, mut dresidual] = [(); 3].map(|()| vec![f32::NAN; x.len()]);
            let [mut mean, mut variance] = self.others();
            let [mut dgamma, mut dbeta] = [(); 2].map(|()| vec![f32::NAN; shape.channels]);
            let s = &mut scratch;
            match of {
                StatisticsOf::Batch => {
                    let statistics = Statistics { mean: &mut mean, variance: &mut variance };
                    batch_norm(isa, *shape, by, x, &mut y, statistics, s, threads);
                }
                StatisticsOf::Others => {
                    let statistics = [&mean[..], &variance[..]];
                    let y = Cut::new(&mut y, shape.piece());
                    apply_into(isa, *shape, by, statistics, x, y, threads);
                }
            }
            let gradients = NormGradients {
                dx: &mut dx,
                dgamma: &mut dgamma,
                dbeta: &mut dbeta,
                dresidual: residual.map(|_| &mut dresidual[..]),
            };
            let statistics = [&mean[..], &variance[..]];
            gradients_of(isa, *shape, by, *of, statistics, x, dy, gradients, s, threads);
            if residual.is_none() {
                dresidual.clear();
            }
            [y, mean, variance, dx, dgamma, dbeta, dresidual]
        }

        /// By the definition, in f64; the rectifier's mask is the given result's own.
        fn reference(&self, given: &[f32]) -> All<f64> {
            let BatchNormShape { batch, channels, pixels } = self.shape;
            let wide = |v: &[f32]| v.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
            let [x, dy, gamma, beta] =
                [&self.x, &self.dy, &self.gamma, &self.beta].map(|v| wide(v));
            let residual = self.residual.as_deref().map(wide);
            let others = self.others().map(|v| wide(&v));
            let count = (batch * pixels) as f64;
            let [mut y, mut dx, mut dresidual] = [(); 3].map(|()| vec![0.0; x.len()]);
            let [mut means, mut variances, mut dgamma, mut dbeta] =
                [(); 4].map(|()| vec![0.0; channels]);
            for c in 0..channels {
                let all = (0..batch)
                    .flat_map(|n| (0..pixels).map(move |p| (n * channels + c) * pixels + p));
                let (mean, variance, centres) = match self.of {
                    StatisticsOf::Batch => {
                        let mean = all.clone().map(|i| x[i]).sum::<f64>() / count;
                        let squares = all.clone().map(|i| (x[i] - mean).powi(2));
                        (mean, squares.sum::<f64>() / count, 1.0)
                    }
                    StatisticsOf::Others => (others[0][c], others[1][c], 0.0),
                };
                let normalized = |i: usize| (x[i] - mean) / (variance + EPSILON).sqrt();
                let before = |i: usize| {
                    normalized(i) * gamma[c] + beta[c] + residual.as_ref().map_or(0.0, |r| r[i])
                };
                let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
                let slope = |i: usize| match (self.activation, before(i)) {
                    (Activation::Identity, _) => 1.0,
                    (Activation::Relu, _) => f64::from(u8::from(given[i] != 0.0)),
                    (Activation::Silu, z) => sigmoid(z) * (1.0 + z * (1.0 - sigmoid(z))),
                    (Activation::Elu, z) => z.min(0.0).exp(),
                    (Activation::LeakyRelu(slope), z) if z < 0.0 => f64::from(slope.get()),
                    (Activation::LeakyRelu(_), _) => 1.0,
                    (Activation::Relu6, z) => f64::from(u8::from(given[i] != 0.0 && z < 6.0)),
                    (Activation::HardSwish, z) if z >= 3.0 => 1.0,
                    (Activation::HardSwish, z) if z <= -3.0 => 0.0,
                    (Activation::HardSwish, z) => z / 3.0 + 0.5,
                    (Activation::Gelu, z) => normal(z)[0] + z * normal(z)[1],
                };
                let passed = |i: usize| dy[i] * slope(i);
                dbeta[c] = all.clone().map(passed).sum();
                dgamma[c] = all.clone().map(|i| passed(i) * normalized(i)).sum();
                for i in all {
                    let z = before(i);
                    y[i] = match self.activation {
                        Activation::Identity => z,
                        Activation::Relu => z.max(0.0),
                        Activation::Silu => z * sigmoid(z),
                        Activation::Elu => z.max(0.0) + z.min(0.0).exp_m1(),
                        Activation::LeakyRelu(slope) => {
                            z.max(0.0) + f64::from(slope.get()) * z.min(0.0)
                        }
                        Activation::Relu6 => z.clamp(0.0, 6.0),
                        Activation::HardSwish => z * (z + 3.0).clamp(0.0, 6.0) / 6.0,
                        Activation::Gelu => z * normal(z)[0],
                    };
                    let moved = (dbeta[c] + normalized(i) * dgamma[c]) / count * centres;
                    dx[i] = gamma[c] / (variance + EPSILON).sqrt() * (passed(i) - moved);
                    dresidual[i] = passed(i);
                }
                (means[c], variances[c]) = (mean, variance);
            }
            if residual.is_none() {
                dresidual.clear();
            }
            [y, means, variances, dx, dgamma, dbeta, dresidual]
        }

        fn check(&self, tolerance: f64) {
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let given = self.run(isa, 1);
                let right = self.reference(&given[0]);
                let names = ["y", "mean", "variance", "dx", "dgamma", "dbeta", "dresidual"];
                for ((given, right), name) in given.iter().zip(&right).zip(names) {
                    let most = right.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
                    for (given, right) in given.iter().zip(right) {
                        let error = (f64::from(*given) - right).abs();
                        let shape = self.shape;
                        assert!(
                            error <= tolerance * most,
                            "{isa} {name} {shape:?}: {given} {right}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn maps_of_real_networks_are_right() {
        for activation in ALL {
            // The last one has several groups of channels and of samples.
            for shape in [[8, 5, 256], [64, 3, 1], [70, 40, 4]] {
                let case = Case::new(shape, activation, 0.0);
                case.check(2e-6);
                case.by_others().check(2e-6);
            }
            for shape in [[8, 5, 256], [70, 40, 4]] {
                Case::new(shape, activation, 0.0).with_residual().check(2e-6);
            }
            Case::new([8, 5, 64], activation, 0.0).with_residual().by_others().check(2e-6);
        }
    }

    #[test]
    fn a_mean_far_from_zero_does_not_spoil_the_variance() {
        // A spread of 0.6 around 1000: the difference of squares in f32 would lose it.
        for shape in [[16, 2, 100], [64, 2, 9], [70, 3, 1]] {
            Case::new(shape, Activation::Identity, 1000.0).check(3e-4);
        }
    }

    #[test]
    fn constant_channels_of_few_pixels_have_no_variance() {
        for (value, batch) in [(1000.1, 64), (131_072.02, 3), (0.1, 33)] {
            for pixels in [1, 9] {
                let mut case = Case::new([batch, 2, pixels], Activation::Identity, 0.0);
                case.x.fill(value);
                for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                    let [y, mean, variance, ..] = case.run(isa, 1);
                    assert_eq!(mean, [value; 2], "{isa} {value} {pixels}");
                    assert!(variance.iter().all(|variance| *variance < 1e-12 * value * value));
                    let beta = case.beta.iter().cycle().take(2).collect::<Vec<_>>();
                    for (at, y) in y.iter().enumerate() {
                        assert!((y - beta[at / pixels % 2]).abs() < 1e-6, "{isa} {y}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_shape_is_right(
            shape in [1_usize..6, 1_usize..7, 1_usize..150],
            activation in prop::sample::select(ALL.to_vec()),
            has_residual in any::<bool>(),
            by_others in any::<bool>(),
        ) {
            // Two normalized values do not depend on the input: their gradient is rounding error.
            prop_assume!(shape[0] * shape[2] > 4);
            let case = Case::new(shape, activation, 0.3);
            let case = if has_residual { case.with_residual() } else { case };
            let case = if by_others { case.by_others() } else { case };
            case.check(2e-5);
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        for shape in [[13, 7, 50], [40, 90, 3]] {
            let case = Case::new(shape, Activation::Relu, 0.0).with_residual();
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let alone = case.run(isa, 1);
                for threads in [2, 3, 8] {
                    assert_eq!(alone, case.run(isa, threads));
                }
            }
        }
    }

    #[test]
    fn nan_is_not_rectified_away() {
        for pixels in [20, 50] {
            let mut case = Case::new([2, 2, pixels], Activation::Relu, 0.0);
            case.x[3] = f32::NAN;
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let [y, ..] = case.run(isa, 1);
                assert!(y[..pixels].iter().all(|value| value.is_nan()), "{isa}");
                assert!(y[pixels..2 * pixels].iter().all(|value| value.is_finite()), "{isa}");
            }
        }
    }
}
