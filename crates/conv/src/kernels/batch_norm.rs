//! Batch normalization in training: with the statistics of the batch itself.

use super::cpu::{Line, NormKernels};
use super::parallel::{over_items, threads};
use super::path::Path;
use super::scratch::Scratch;

/// What follows a normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Activation {
    /// Nothing.
    #[default]
    Identity,
    /// `max(y, 0)`; NaN stays NaN.
    Relu,
}

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

    /// Numbers that a channel's statistics are taken over.
    const fn count(&self) -> usize {
        self.batch * self.pixels
    }
}

/// How a batch is normalized: `y = activation((x − mean)/√(variance + epsilon)·gamma + beta)`.
#[derive(Debug, Clone, Copy)]
pub struct Normalization<'a> {
    /// One factor a channel.
    pub gamma: &'a [f32],
    /// One summand a channel.
    pub beta: &'a [f32],
    /// Added to the variance.
    pub epsilon: f64,
    /// What follows.
    pub activation: Activation,
}

/// The statistics of a batch, one a channel.
#[derive(Debug)]
pub struct Statistics<'a> {
    /// The mean.
    pub mean: &'a mut [f32],
    /// The variance over the batch, without Bessel's correction.
    pub variance: &'a mut [f32],
}

/// Normalizes a batch by its own statistics, which are returned in `statistics`.
///
/// Means and variances are summed in f64 over feature maps that are summed in f32 by 32 lanes.
///
/// # Panics
/// If a slice has another length than `shape` says, the tensor is empty, or the path is not
/// available on this CPU.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn batch_norm(
    path: Path,
    shape: BatchNormShape,
    by: Normalization<'_>,
    x: &[f32],
    y: &mut [f32],
    statistics: Statistics<'_>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    check(shape, &by, &[x.len(), y.len()]);
    assert_eq!(statistics.mean.len(), shape.channels, "one mean for each channel");
    assert_eq!(statistics.variance.len(), shape.channels, "one variance for each channel");
    let kernels = NormKernels::of(path);
    let mut states = vec![(); threads(asked_threads)];
    let partial = scratch.wide(2 * shape.batch * shape.channels);
    over_items(partial, 2, &mut states, |plane, partial, ()| {
        partial.copy_from_slice(&kernels.moments(&x[plane * shape.pixels..][..shape.pixels]));
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
        statistics.mean[channel] = mean as f32;
        statistics.variance[channel] = (squares / count) as f32;
    }
    let lines = lines(&by, statistics.mean, statistics.variance);
    over_items(y, shape.pixels, &mut states, |plane, y, ()| {
        let x = &x[plane * shape.pixels..][..shape.pixels];
        kernels.apply(lines[plane % shape.channels], x, y);
    });
}

/// The gradients of a normalization by the batch's own statistics, for the loss `Σ y·dy`.
#[derive(Debug)]
pub struct NormGradients<'a> {
    /// Of the input.
    pub dx: &'a mut [f32],
    /// Of the factors.
    pub dgamma: &'a mut [f32],
    /// Of the summands.
    pub dbeta: &'a mut [f32],
}

/// The gradients of [`batch_norm`], from its input and the statistics that it returned.
///
/// # Panics
/// If a slice has another length than `shape` says, the tensor is empty, or the path is not
/// available on this CPU.
#[expect(clippy::too_many_arguments, reason = "every argument is one thing a caller decides")]
pub fn batch_norm_gradient(
    path: Path,
    shape: BatchNormShape,
    by: Normalization<'_>,
    [mean, variance]: [&[f32]; 2],
    x: &[f32],
    dy: &[f32],
    gradients: NormGradients<'_>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let NormGradients { dx, dgamma, dbeta } = gradients;
    check(shape, &by, &[x.len(), dy.len(), dx.len()]);
    for (vector, name) in
        [(mean, "mean"), (variance, "variance"), (dgamma, "dgamma"), (dbeta, "dbeta")]
    {
        assert_eq!(vector.len(), shape.channels, "one {name} for each channel");
    }
    let kernels = NormKernels::of(path);
    let lines = lines(&by, mean, variance);
    let mut states = vec![(); threads(asked_threads)];
    let partial = scratch.wide(2 * shape.batch * shape.channels);
    over_items(partial, 2, &mut states, |plane, partial, ()| {
        let range = plane * shape.pixels..(plane + 1) * shape.pixels;
        let line = lines[plane % shape.channels];
        partial.copy_from_slice(&kernels.gradient_sums(line, &x[range.clone()], &dy[range]));
    });
    let count = shape.count() as f64;
    let mut means = vec![[0.0_f32; 2]; shape.channels];
    for channel in 0..shape.channels {
        let (mut first, mut second) = (0.0, 0.0);
        for sample in 0..shape.batch {
            let at = 2 * (sample * shape.channels + channel);
            first += partial[at];
            second += partial[at + 1];
        }
        let inverse = 1.0 / (f64::from(variance[channel]) + by.epsilon);
        dbeta[channel] = first as f32;
        dgamma[channel] = (second * inverse.sqrt()) as f32;
        means[channel] = [(first / count) as f32, (second * inverse / count) as f32];
    }
    over_items(dx, shape.pixels, &mut states, |plane, dx, ()| {
        let range = plane * shape.pixels..(plane + 1) * shape.pixels;
        let channel = plane % shape.channels;
        kernels.gradient(lines[channel], means[channel], &x[range.clone()], &dy[range], dx);
    });
}

fn check(shape: BatchNormShape, by: &Normalization<'_>, lengths: &[usize]) {
    assert!(!shape.is_empty(), "an empty tensor has no statistics");
    assert!(lengths.iter().all(|&length| length == shape.len()), "numbers of the tensors");
    assert_eq!(by.gamma.len(), shape.channels, "one gamma for each channel");
    assert_eq!(by.beta.len(), shape.channels, "one beta for each channel");
}

fn lines(by: &Normalization<'_>, mean: &[f32], variance: &[f32]) -> Vec<Line> {
    let spread = |variance: f32| (f64::from(variance) + by.epsilon).sqrt();
    (0..mean.len())
        .map(|channel| Line {
            mean: mean[channel],
            scale: (f64::from(by.gamma[channel]) / spread(variance[channel])) as f32,
            shift: by.beta[channel],
            rectifies: by.activation == Activation::Relu,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(seed: u32, count: usize, offset: f32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as f32 / u32::MAX as f32 * 2.0 - 1.0 + offset
        };
        (0..count).map(|_| next()).collect()
    }

    /// `[y, mean, variance, dx, dgamma, dbeta]`.
    type All<T> = [Vec<T>; 6];

    struct Case {
        shape: BatchNormShape,
        activation: Activation,
        x: Vec<f32>,
        dy: Vec<f32>,
        gamma: Vec<f32>,
        beta: Vec<f32>,
    }

    const EPSILON: f64 = 1e-5;

    impl Case {
        fn new([batch, channels, pixels]: [usize; 3], activation: Activation, offset: f32) -> Self {
            let shape = BatchNormShape { batch, channels, pixels };
            Self {
                shape,
                activation,
                x: numbers(1, shape.len(), offset),
                dy: numbers(2, shape.len(), 0.0),
                gamma: numbers(3, channels, 1.5),
                beta: numbers(4, channels, 0.0),
            }
        }

        fn run(&self, path: Path, threads: usize) -> All<f32> {
            let Self { shape, activation, x, dy, gamma, beta } = self;
            let by = Normalization { gamma, beta, epsilon: EPSILON, activation: *activation };
            let mut scratch = Scratch::new();
            scratch.wide(1 << 12).fill(f64::NAN);
            let (mut y, mut dx) = (vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]);
            let [mut mean, mut variance, mut dgamma, mut dbeta] =
                [(); 4].map(|()| vec![f32::NAN; shape.channels]);
            let statistics = Statistics { mean: &mut mean, variance: &mut variance };
            batch_norm(path, *shape, by, x, &mut y, statistics, &mut scratch, threads);
            let gradients = NormGradients { dx: &mut dx, dgamma: &mut dgamma, dbeta: &mut dbeta };
            let statistics = [&mean[..], &variance[..]];
            let s = &mut scratch;
            batch_norm_gradient(path, *shape, by, statistics, x, dy, gradients, s, threads);
            [y, mean, variance, dx, dgamma, dbeta]
        }

        /// By the definition, in f64; the rectifier's mask is the given result's own.
        fn reference(&self, given: &[f32]) -> All<f64> {
            let BatchNormShape { batch, channels, pixels } = self.shape;
            let [x, dy, gamma, beta] = [&self.x, &self.dy, &self.gamma, &self.beta]
                .map(|v| v.iter().map(|&value| f64::from(value)).collect::<Vec<_>>());
            let count = (batch * pixels) as f64;
            let [mut y, mut dx] = [(); 2].map(|()| vec![0.0; x.len()]);
            let [mut means, mut variances, mut dgamma, mut dbeta] =
                [(); 4].map(|()| vec![0.0; channels]);
            for c in 0..channels {
                let all = (0..batch)
                    .flat_map(|n| (0..pixels).map(move |p| (n * channels + c) * pixels + p));
                let mean = all.clone().map(|i| x[i]).sum::<f64>() / count;
                let variance = all.clone().map(|i| (x[i] - mean).powi(2)).sum::<f64>() / count;
                let normal = |i: usize| (x[i] - mean) / (variance + EPSILON).sqrt();
                let rectified = self.activation == Activation::Relu;
                let passed = |i: usize| if rectified && given[i] == 0.0 { 0.0 } else { dy[i] };
                dbeta[c] = all.clone().map(passed).sum();
                dgamma[c] = all.clone().map(|i| passed(i) * normal(i)).sum();
                for i in all {
                    let plain = normal(i) * gamma[c] + beta[c];
                    y[i] = if rectified { plain.max(0.0) } else { plain };
                    let centred = passed(i) - dbeta[c] / count - normal(i) * dgamma[c] / count;
                    dx[i] = gamma[c] / (variance + EPSILON).sqrt() * centred;
                }
                (means[c], variances[c]) = (mean, variance);
            }
            [y, means, variances, dx, dgamma, dbeta]
        }

        fn check(&self, tolerance: f64) {
            for path in Path::ALL.into_iter().filter(|path| path.is_available()) {
                let given = self.run(path, 1);
                let right = self.reference(&given[0]);
                let names = ["y", "mean", "variance", "dx", "dgamma", "dbeta"];
                for ((given, right), name) in given.iter().zip(&right).zip(names) {
                    let most = right.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
                    for (given, right) in given.iter().zip(right) {
                        let error = (f64::from(*given) - right).abs();
                        let shape = self.shape;
                        assert!(
                            error <= tolerance * most,
                            "{path} {name} {shape:?}: {given} {right}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn maps_of_real_networks_are_right() {
        for activation in [Activation::Identity, Activation::Relu] {
            Case::new([8, 5, 256], activation, 0.0).check(2e-6);
            Case::new([64, 3, 1], activation, 0.0).check(2e-6);
        }
    }

    #[test]
    fn a_mean_far_from_zero_does_not_spoil_the_variance() {
        // A spread of 0.6 around 1000, where the square of the mean has lost it in f32.
        Case::new([16, 2, 100], Activation::Identity, 1000.0).check(3e-4);
    }

    proptest! {
        #[test]
        fn any_shape_is_right(
            shape in [1_usize..6, 1_usize..7, 1_usize..150],
            relu in any::<bool>(),
        ) {
            // Two values have the same spread whatever they are: their gradient is rounding.
            prop_assume!(shape[0] * shape[2] > 4);
            let activation = if relu { Activation::Relu } else { Activation::Identity };
            Case::new(shape, activation, 0.3).check(2e-5);
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let case = Case::new([13, 7, 50], Activation::Relu, 0.0);
        for path in Path::ALL.into_iter().filter(|path| path.is_available()) {
            let alone = case.run(path, 1);
            for threads in [2, 3, 8] {
                assert_eq!(alone, case.run(path, threads));
            }
        }
    }

    #[test]
    fn nan_is_not_rectified_away() {
        let mut case = Case::new([2, 2, 20], Activation::Relu, 0.0);
        case.x[3] = f32::NAN;
        for path in Path::ALL.into_iter().filter(|path| path.is_available()) {
            let [y, ..] = case.run(path, 1);
            assert!(y[..20].iter().all(|value| value.is_nan()), "{path}");
            assert!(y[20..40].iter().all(|value| value.is_finite()), "{path}");
        }
    }
}
