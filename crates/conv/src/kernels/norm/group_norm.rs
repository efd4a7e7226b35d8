//! Group normalization: each sample's groups of channels by their own statistics; with a group for
//! each channel it is instance normalization.

use std::ops::Range;

use updraft_simd::{Cut, Isa, Pieces, Vectors, over, threads};

use super::plane::{self, Line};
use crate::kernels::elementwise::Activation;

/// The shape `[batch, channels, pixels]` of a contiguous tensor that is normalized by groups of
/// channels of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupNormShape {
    /// Samples; there may be none.
    pub(crate) batch: usize,
    /// Channels, a multiple of the groups.
    pub(crate) channels: usize,
    /// Groups of channels, each with its own statistics in each sample.
    pub(crate) groups: usize,
    /// Numbers of a sample in a channel.
    pub(crate) pixels: usize,
}

impl GroupNormShape {
    /// Numbers in the tensor.
    #[must_use]
    pub(crate) const fn len(&self) -> usize {
        self.batch * self.channels * self.pixels
    }

    /// Means and variances: one of each for every group of every sample.
    #[must_use]
    pub(crate) const fn statistics(&self) -> usize {
        self.batch * self.groups
    }

    /// The number of values of a group's statistics.
    pub(crate) const fn of_group(&self) -> usize {
        self.channels / self.groups * self.pixels
    }
}

/// How groups are normalized: `y = activation((x − mean)/√(variance + epsilon)·gamma + beta)`, or with a
/// residual before the activation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupNormalization<'a> {
    /// One factor a channel.
    pub(crate) gamma: &'a [f32],
    /// One summand a channel.
    pub(crate) beta: &'a [f32],
    /// Added to the variance.
    pub(crate) epsilon: f64,
    /// What follows.
    pub(crate) activation: Activation,
}

/// The input of a normalization, and what its result is written over.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NormSource<'a> {
    /// The input is in the memory of the result.
    InPlace,
    /// The memory of the result has unspecified contents.
    Apart(&'a [f32]),
    /// The memory of the result holds a residual, which is added before the activation.
    Onto(&'a [f32]),
}

impl<'a> NormSource<'a> {
    /// The input where it is apart from the result.
    const fn input(self) -> Option<&'a [f32]> {
        match self {
            Self::InPlace => None,
            Self::Apart(x) | Self::Onto(x) => Some(x),
        }
    }

    /// The source of a part of the result.
    fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::InPlace => Self::InPlace,
            Self::Apart(x) => Self::Apart(&x[range]),
            Self::Onto(x) => Self::Onto(&x[range]),
        }
    }
}

/// Numbers that are summed in f32; their sums are added in f64.
const PART: usize = 1 << 14;

/// Normalizes every group by its own statistics, which are returned as `[mean, variance]`, the
/// variance without Bessel's correction; a group is the work of one thread.
///
/// Means and variances are summed in f64 over parts of 2¹⁴ numbers that are summed in f32 by 32
/// lanes.
///
/// # Panics
/// If a slice has another length than `shape` says, the groups do not divide the channels, a channel
/// has no numbers, or the CPU does not have `isa`.
pub(crate) fn group_norm_into<'a>(
    isa: Isa,
    shape: GroupNormShape,
    by: GroupNormalization<'_>,
    source: NormSource<'_>,
    y: impl Pieces<Piece = &'a mut [f32]>,
    [means, variances]: [&mut [f32]; 2],
    asked_threads: usize,
) {
    let length = source.input().map(<[f32]>::len);
    check(shape, &by, length.as_slice(), [means, variances]);
    let vectors = isa.vectors();
    let statistics = (Cut::new(means, 1), Cut::new(variances, 1));
    over((y, statistics), &mut vec![(); threads(asked_threads)], |index, (y, statistics), ()| {
        let source = source.part(index * shape.of_group()..(index + 1) * shape.of_group());
        let [mean, variance] = moments(vectors, source.input().unwrap_or(y));
        statistics.0[0] = mean as f32;
        statistics.1[0] = variance as f32;
        let channels = shape.channels / shape.groups;
        for (channel, y) in y.chunks_exact_mut(shape.pixels).enumerate() {
            let source = source.part(channel * shape.pixels..(channel + 1) * shape.pixels);
            let channel = index % shape.groups * channels + channel;
            let line = line(&by, channel, [statistics.0[0], statistics.1[0]]);
            match source {
                NormSource::InPlace => plane::apply_in_place(vectors, line, y),
                NormSource::Apart(x) => plane::apply(vectors, line, x, None, y),
                NormSource::Onto(x) => plane::apply_onto(vectors, line, x, y),
            }
        }
    });
}

/// The gradients of [`group_norm_into`] for the loss `Σ y·dy`, from its input and the statistics that it
/// returned: of the input, written over `dy`, the factors and the summands.
///
/// # Panics
/// As [`group_norm_into`].
#[expect(clippy::too_many_arguments, reason = "all that a normalization knew")]
pub(crate) fn group_norm_gradient_into<'a>(
    isa: Isa,
    shape: GroupNormShape,
    by: GroupNormalization<'_>,
    [means, variances]: [&[f32]; 2],
    x: &[f32],
    dy: impl Pieces<Piece = &'a mut [f32]>,
    [dgamma, dbeta]: [&mut [f32]; 2],
    asked_threads: usize,
) {
    check(shape, &by, &[x.len()], [means, variances]);
    assert_eq!(dgamma.len(), shape.channels, "one dgamma for each channel");
    assert_eq!(dbeta.len(), shape.channels, "one dbeta for each channel");
    let vectors = isa.vectors();
    let channels = shape.channels / shape.groups;
    // For each channel of each sample `[Σ g, Σ g·(x − mean)/√(variance + ε)]`.
    let mut sums = vec![0.0_f64; 2 * shape.batch * shape.channels];
    let pieces = (dy, Cut::new(&mut sums, 2 * channels));
    over(pieces, &mut vec![(); threads(asked_threads)], |index, (dy, sums), ()| {
        let x = &x[index * shape.of_group()..][..shape.of_group()];
        let spread = 1.0 / (f64::from(variances[index]) + by.epsilon).sqrt();
        let line = |channel: usize| {
            line(&by, index % shape.groups * channels + channel, [means[index], variances[index]])
        };
        let (mut first, mut second) = (0.0, 0.0);
        let planes = x.chunks_exact(shape.pixels);
        for (channel, (x, dy)) in planes.clone().zip(dy.chunks_exact(shape.pixels)).enumerate() {
            let [mut sum, mut product] = [0.0; 2];
            for (x, dy) in x.chunks(PART).zip(dy.chunks(PART)) {
                let part = plane::gradient_sums(vectors, line(channel), x, None, dy);
                sum += part[0];
                product += part[1];
            }
            product *= spread;
            sums[2 * channel..2 * channel + 2].copy_from_slice(&[sum, product]);
            let gamma = f64::from(by.gamma[index % shape.groups * channels + channel]);
            first += gamma * sum;
            second += gamma * product;
        }
        let count = shape.of_group() as f64;
        let means = [spread * first / count, spread * spread * second / count];
        let means = means.map(|mean| mean as f32);
        for (channel, (x, dy)) in planes.zip(dy.chunks_exact_mut(shape.pixels)).enumerate() {
            plane::gradient_about(vectors, line(channel), means, x, dy);
        }
    });
    for channel in 0..shape.channels {
        let of = |which: usize| {
            let samples = sums.iter().skip(2 * channel + which).step_by(2 * shape.channels);
            samples.sum::<f64>() as f32
        };
        dbeta[channel] = of(0);
        dgamma[channel] = of(1);
    }
}

fn check(
    shape: GroupNormShape,
    by: &GroupNormalization<'_>,
    lengths: &[usize],
    statistics: [&[f32]; 2],
) {
    let GroupNormShape { channels, groups, pixels, .. } = shape;
    assert!(groups > 0 && channels.is_multiple_of(groups), "the groups divide the channels");
    assert!(channels > 0 && pixels > 0, "a channel without numbers has no statistics");
    assert!(lengths.iter().all(|&length| length == shape.len()), "numbers of the tensors");
    assert_eq!(by.gamma.len(), channels, "one gamma for each channel");
    assert_eq!(by.beta.len(), channels, "one beta for each channel");
    let each = statistics.iter().all(|values| values.len() == shape.statistics());
    assert!(each, "one mean and one variance for each group of each sample");
}

fn line(by: &GroupNormalization<'_>, channel: usize, [mean, variance]: [f32; 2]) -> Line {
    let spread = (f64::from(variance) + by.epsilon).sqrt();
    Line {
        mean,
        scale: (f64::from(by.gamma[channel]) / spread) as f32,
        shift: by.beta[channel],
        activation: by.activation,
    }
}

/// Mean and variance, part by part.
fn moments(vectors: Vectors, x: &[f32]) -> [f64; 2] {
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for part in x.chunks(PART) {
        let [near, more_squares] = plane::moments(vectors, part);
        // Chan, Golub and LeVeque 1979, equation 2.1.
        let (more, difference) = (part.len() as f64, near - mean);
        let total = count + more;
        mean += difference * more / total;
        squares += more_squares + difference * difference * count * more / total;
        count = total;
    }
    [mean, squares / count]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Slope;
    use updraft_testing::scattered;

    const EPSILON: f64 = 1e-5;

    fn activations() -> [Activation; 3] {
        [Activation::Identity, Activation::LeakyRelu(Slope::new(0.01)), Activation::Silu]
    }

    /// `[value, slope]` in f64.
    fn activated(activation: Activation, z: f64) -> [f64; 2] {
        match activation {
            Activation::LeakyRelu(slope) if z < 0.0 => {
                [f64::from(slope.get()) * z, f64::from(slope.get())]
            }
            Activation::Silu => {
                let sigmoid = 1.0 / (1.0 + (-z).exp());
                [z * sigmoid, sigmoid * (1.0 + z * (1.0 - sigmoid))]
            }
            _ => [z, 1.0],
        }
    }

    struct Case {
        shape: GroupNormShape,
        activation: Activation,
        x: Vec<f32>,
        dy: Vec<f32>,
        gamma: Vec<f32>,
        beta: Vec<f32>,
    }

    impl Case {
        fn new(shape: GroupNormShape, activation: Activation, offset: f32) -> Self {
            let near = |seed, count, offset: f32| -> Vec<f32> {
                scattered(seed, count).into_iter().map(|number| number + offset).collect()
            };
            Self {
                shape,
                activation,
                x: near(1, shape.len(), offset),
                dy: near(2, shape.len(), 0.0),
                gamma: near(3, shape.channels, 0.3),
                beta: near(4, shape.channels, 0.0),
            }
        }

        /// `[y, dx, dgamma, dbeta]`.
        fn run(&self, isa: Isa, threads: usize) -> [Vec<f32>; 4] {
            let Self { shape, activation, x, dy, gamma, beta } = self;
            let by = GroupNormalization { gamma, beta, epsilon: EPSILON, activation: *activation };
            let (mut y, mut dx) = (vec![f32::NAN; shape.len()], dy.clone());
            let [mut mean, mut variance] = [(); 2].map(|()| vec![f32::NAN; shape.statistics()]);
            let cut = shape.of_group().max(1);
            let statistics = [&mut mean[..], &mut variance[..]];
            let source = NormSource::Apart(x);
            group_norm_into(isa, *shape, by, source, Cut::new(&mut y, cut), statistics, threads);
            let [mut dgamma, mut dbeta] = [(); 2].map(|()| vec![f32::NAN; shape.channels]);
            let (statistics, to) = ([&mean[..], &variance[..]], [&mut dgamma[..], &mut dbeta[..]]);
            let dx_cut = Cut::new(&mut dx, cut);
            group_norm_gradient_into(isa, *shape, by, statistics, x, dx_cut, to, threads);
            [y, dx, dgamma, dbeta]
        }

        fn reference(&self) -> [Vec<f64>; 4] {
            let GroupNormShape { batch, channels, groups, pixels } = self.shape;
            let [mut y, mut dx] = [(); 2].map(|()| vec![0.0; self.shape.len()]);
            let [mut dgamma, mut dbeta] = [(); 2].map(|()| vec![0.0; channels]);
            let of_group = channels / groups * pixels;
            for group in 0..batch * groups {
                let all = group * of_group..(group + 1) * of_group;
                let channel = |at: usize| at / pixels % channels;
                let x = |at: usize| f64::from(self.x[at]);
                let mean = all.clone().map(x).sum::<f64>() / of_group as f64;
                let variance =
                    all.clone().map(|at| (x(at) - mean).powi(2)).sum::<f64>() / of_group as f64;
                let spread = (variance + EPSILON).sqrt();
                let normal = |at: usize| (x(at) - mean) / spread;
                let gamma = |at: usize| f64::from(self.gamma[channel(at)]);
                let z = |at: usize| normal(at) * gamma(at) + f64::from(self.beta[channel(at)]);
                let g = |at: usize| f64::from(self.dy[at]) * activated(self.activation, z(at))[1];
                let mean_of =
                    |of: &dyn Fn(usize) -> f64| all.clone().map(of).sum::<f64>() / of_group as f64;
                let first = mean_of(&|at| g(at) * gamma(at));
                let second = mean_of(&|at| g(at) * gamma(at) * normal(at));
                for at in all.clone() {
                    y[at] = activated(self.activation, z(at))[0];
                    dgamma[channel(at)] += g(at) * normal(at);
                    dbeta[channel(at)] += g(at);
                    dx[at] = (g(at) * gamma(at) - first - normal(at) * second) / spread;
                }
            }
            [y, dx, dgamma, dbeta]
        }
    }

    fn sets() -> impl Iterator<Item = Isa> {
        Isa::BASES.into_iter().filter(|isa| isa.is_available())
    }

    #[test]
    fn groups_are_normalized_with_their_gradients_for_any_number_of_threads() {
        for (batch, channels, groups, pixels) in
            [(2, 3, 3, 37), (3, 6, 2, 5), (1, 4, 1, 4099), (2, 2, 2, 40_000), (1, 1, 1, 1)]
        {
            let shape = GroupNormShape { batch, channels, groups, pixels };
            for (activation, offset) in activations().into_iter().zip([0.0, 3.0, -0.5]) {
                let case = Case::new(shape, activation, offset);
                let right = case.reference();
                for isa in sets() {
                    let given = case.run(isa, 1);
                    for (which, (given, right)) in given.iter().zip(&right).enumerate() {
                        let largest = right.iter().fold(1.0_f64, |most, v| most.max(v.abs()));
                        // A slope of 1/√ε multiplies the rounding error of a difference of equal
                        // numbers.
                        let unit = if pixels == 1 { 2e-3 } else { 2e-5 };
                        for (given, right) in given.iter().zip(right) {
                            let error = (f64::from(*given) - right).abs();
                            let context = format!("{isa} {shape:?} {activation:?} {which}");
                            assert!(error < unit * largest, "{context}: {given} is not {right}");
                        }
                    }
                    for threads in [2, 5] {
                        assert_eq!(given, case.run(isa, threads), "{isa} {threads} threads");
                    }
                }
            }
        }
    }

    #[test]
    fn results_over_the_input_and_over_a_residual_are_those_apart() {
        let shape = GroupNormShape { batch: 2, channels: 6, groups: 3, pixels: 41 };
        for activation in activations() {
            let case = Case::new(shape, activation, 0.5);
            let Case { x, gamma, beta, dy: residual, .. } = &case;
            let with = |isa, activation, source: NormSource<'_>, mut y: Vec<f32>| {
                let by = GroupNormalization { gamma, beta, epsilon: EPSILON, activation };
                let [mut mean, mut variance] = [(); 2].map(|()| vec![f32::NAN; shape.statistics()]);
                let statistics = [&mut mean[..], &mut variance[..]];
                let cut = Cut::new(&mut y, shape.of_group());
                group_norm_into(isa, shape, by, source, cut, statistics, 2);
                (y, mean, variance)
            };
            for isa in sets() {
                let unwritten = || vec![f32::NAN; shape.len()];
                let apart = with(isa, activation, NormSource::Apart(x), unwritten());
                let in_place = with(isa, activation, NormSource::InPlace, x.clone());
                assert_eq!(in_place, apart, "{isa} {activation:?}");
                let plain = with(isa, Activation::Identity, NormSource::Apart(x), unwritten());
                let onto = with(isa, activation, NormSource::Onto(x), residual.clone());
                assert_eq!((&onto.1, &onto.2), (&plain.1, &plain.2));
                for ((&y, &normal), &residual) in onto.0.iter().zip(&plain.0).zip(residual) {
                    let [right, _] = activated(activation, f64::from(normal) + f64::from(residual));
                    assert!((f64::from(y) - right).abs() < 1e-5, "{isa} {activation:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_in_its_group() {
        let shape = GroupNormShape { batch: 2, channels: 4, groups: 2, pixels: 50 };
        for poison in [f32::NAN, f32::INFINITY] {
            let mut case = Case::new(shape, Activation::Identity, 0.0);
            case.x[130] = poison;
            for isa in sets() {
                let [y, dx, ..] = case.run(isa, 1);
                for (at, (y, dx)) in y.iter().zip(&dx).enumerate() {
                    let is_finite = !(100..200).contains(&at);
                    assert_eq!((y.is_finite(), dx.is_finite()), (is_finite, is_finite), "{at}");
                }
            }
        }
    }

    #[test]
    fn an_empty_batch_has_no_gradient() {
        let shape = GroupNormShape { batch: 0, channels: 2, groups: 1, pixels: 3 };
        let case = Case::new(shape, Activation::Identity, 0.0);
        let [y, dx, dgamma, dbeta] = case.run(Isa::detect(), 2);
        assert!(y.is_empty() && dx.is_empty());
        assert_eq!([dgamma, dbeta], [vec![0.0; 2], vec![0.0; 2]]);
    }
}
