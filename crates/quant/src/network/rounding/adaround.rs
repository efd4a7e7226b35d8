//! Adaptive rounding: whether each weight is rounded up or down is learned.

use updraft_conv::slices::{ConvGeometry, ConvShape, Scratch, forward, weight_gradient};
use updraft_simd::{Isa, over, pool_threads};

use super::Problem;

/// Updates, and the step size of Adam.
const UPDATES: usize = 1000;
const RATE: f32 = 0.02;

/// The most samples of an update, and the pixels of results at which fewer are enough.
const BATCH: usize = 32;
const PIXELS: usize = 4096;

/// The updates before roundings are pushed to whole numbers, as a fraction of all.
const WARM_UP: f32 = 0.2;

/// The exponents of the penalty on fractions, from the end of the warm-up to the last update.
const EXPONENTS: [f32; 2] = [20.0, 2.0];

/// The weight of the penalty, where the error of nearest rounding counts 1 for each weight.
const PENALTY: f32 = 0.1;

/// A sigmoid is stretched to this range and clipped, so that it reaches 0 and 1.
const STRETCH: [f32; 2] = [-0.1, 1.1];

/// The levels of all weights.
///
/// Minimizes the squared error of the layer's results over mini-batches of samples, with a penalty on
/// roundings between down and up, whose exponent falls.
pub(super) fn round(problem: &Problem<'_>) -> Vec<i32> {
    let Problem { grid, weights, x, samples, .. } = *problem;
    let around: Vec<_> = weights
        .iter()
        .enumerate()
        .map(|(at, &weight)| {
            let levels = grid.levels(at / grid.each, at % grid.each);
            let [below, above] = levels.around(weight.into());
            let (low, width) =
                (levels.step * f64::from(below), levels.step * f64::from(above - below));
            let fraction = if width > 0.0 { (f64::from(weight) - low) / width } else { 0.0 };
            Around { levels: [below, above], low, width, fraction: fraction.clamp(0.0, 1.0) }
        })
        .collect();
    let pixels: usize = problem.geometry.output().iter().product();
    let batch = PIXELS.div_ceil(pixels).min(BATCH).min(samples);
    let mut layer = Layer::new(problem, batch);
    // The scale of errors: that of nearest rounding over some samples.
    let near = |it: &Around| (it.low + it.fraction.round() * it.width) as f32;
    let near: Vec<f32> = around
        .iter()
        .zip(weights)
        .map(|(it, &w)| if it.width > 0.0 { near(it) } else { w })
        .collect();
    let (_, unit) = layer.gradient(x, weights, &near);
    if unit == 0.0 {
        return grid.nearest(weights);
    }
    let each = x.len() / samples;
    let mut choices: Vec<Choice> = around.iter().map(Choice::new).collect();
    let mut soft = near;
    let threads = layer.threads;
    choose(&mut choices, weights, &mut soft, threads, |_, _| {});
    let mut adam = Adam::default();
    let mut order: Vec<usize> = (0..samples).collect();
    let mut images = vec![0.0; batch * each];
    let (mut state, mut next) = (1_u64, samples);
    let of_weight = (weights.len() as f64 / unit) as f32;
    for update in 0..UPDATES {
        for image in images.chunks_exact_mut(each) {
            if next == samples {
                shuffle(&mut order, &mut state);
                next = 0;
            }
            image.copy_from_slice(&x[order[next] * each..][..each]);
            next += 1;
        }
        let (gradient, _) = layer.gradient(&images, weights, &soft);
        let done = update as f32 / UPDATES as f32;
        let exponent = (done > WARM_UP).then(|| {
            let along = (done - WARM_UP) / (1.0 - WARM_UP);
            EXPONENTS[1]
                + 0.5 * (EXPONENTS[0] - EXPONENTS[1]) * (1.0 + (std::f32::consts::PI * along).cos())
        });
        adam.start();
        choose(&mut choices, weights, &mut soft, threads, |index, choice| {
            if choice.slope == 0.0 {
                adam.update(choice, 0.0);
                return;
            }
            let of_error = gradient[index] * choice.width * of_weight;
            let of_penalty = exponent.map_or(0.0, |exponent| {
                // 1 − |2h − 1|ᵉ
                let side = 2.0 * choice.value - 1.0;
                -2.0 * exponent * side.abs().powf(exponent - 1.0) * side.signum()
            });
            adam.update(choice, (of_error + PENALTY * of_penalty) * choice.slope);
        });
    }
    let chosen = |(choice, it): (&Choice, &Around)| {
        it.levels[usize::from(choice.width > 0.0 && choice.value >= 0.5)]
    };
    choices.iter().zip(&around).map(chosen).collect()
}

/// Changes all choices, by their places, and computes the soft weights; weights outside of the range
/// of codes have no choice, and no part in the error.
fn choose(
    choices: &mut [Choice],
    weights: &[f32],
    soft: &mut [f32],
    threads: usize,
    change: impl Fn(usize, &mut Choice) + Sync,
) {
    let share = choices.len().div_ceil(threads).max(1);
    let softs = choices.chunks_mut(share).zip(soft.chunks_mut(share));
    over(softs.collect::<Vec<_>>(), &mut vec![(); threads], |part, (choices, soft), ()| {
        let first = part * share;
        let places = choices.iter_mut().zip(&weights[first..]).zip(soft).enumerate();
        for (at, ((choice, &weight), soft)) in places {
            if choice.width == 0.0 {
                *soft = weight;
                continue;
            }
            change(first + at, choice);
            (choice.value, choice.slope) = sigmoid(choice.variable);
            *soft = choice.low + choice.value * choice.width;
        }
    });
}

/// The choice between the two levels around a weight, and Adam's moments of its gradient.
struct Choice {
    low: f32,
    width: f32,
    variable: f32,
    /// The sigmoid of the variable, and its slope.
    value: f32,
    slope: f32,
    mean: f32,
    square: f32,
}

impl Choice {
    fn new(it: &Around) -> Self {
        let (low, width) = (it.low as f32, it.width as f32);
        let variable = inverse_sigmoid(it.fraction as f32);
        Self { low, width, variable, value: 0.0, slope: 0.0, mean: 0.0, square: 0.0 }
    }
}

/// The two levels around a weight.
struct Around {
    levels: [i32; 2],
    /// The number of the lower one, and the distance to the upper.
    low: f64,
    width: f64,
    /// Where the weight is between them.
    fraction: f64,
}

/// The layer's error over a batch.
struct Layer {
    geometry: ConvGeometry,
    results: Vec<f32>,
    difference: Vec<f32>,
    gradient: Vec<f32>,
    scratch: Scratch,
    threads: usize,
}

impl Layer {
    fn new(problem: &Problem<'_>, batch: usize) -> Self {
        let shape = ConvShape { batch, ..*problem.geometry.shape() };
        let geometry = ConvGeometry::try_new(shape).expect("more samples of a valid layer");
        let weights = problem.weights.len();
        Self {
            results: vec![0.0; geometry.output_len()],
            geometry,
            difference: vec![0.0; weights],
            gradient: vec![0.0; weights],
            scratch: Scratch::new(),
            threads: pool_threads(),
        }
    }

    /// The gradient of the squared error over the first samples with regard to the soft weights, and
    /// the error.
    fn gradient(&mut self, x: &[f32], weights: &[f32], soft: &[f32]) -> (&[f32], f64) {
        let isa = Isa::detect();
        let x = &x[..self.geometry.input_len()];
        // The layer is linear: the error is the result of the weights' difference.
        for ((difference, soft), weight) in self.difference.iter_mut().zip(soft).zip(weights) {
            *difference = soft - weight;
        }
        let Self { geometry, results, difference, gradient, scratch, threads } = self;
        forward(isa, geometry, x, difference, None, results, scratch, *threads);
        let error = results.iter().map(|&y| f64::from(y).powi(2)).sum();
        results.iter_mut().for_each(|y| *y *= 2.0);
        weight_gradient(isa, geometry, x, results, gradient, scratch, *threads);
        (gradient, error)
    }
}

/// A stretched and clipped sigmoid, and its slope.
fn sigmoid(variable: f32) -> (f32, f32) {
    let [low, high] = STRETCH;
    let sigmoid = 1.0 / (1.0 + (-variable).exp());
    let value = low + (high - low) * sigmoid;
    if (0.0..=1.0).contains(&value) {
        (value, (high - low) * sigmoid * (1.0 - sigmoid))
    } else {
        (value.clamp(0.0, 1.0), 0.0)
    }
}

fn inverse_sigmoid(value: f32) -> f32 {
    let [low, high] = STRETCH;
    let inside = (value - low) / (high - low);
    (inside / (1.0 - inside)).ln()
}

/// A random order, by Fisher and Yates.
fn shuffle(order: &mut [usize], state: &mut u64) {
    for last in (1..order.len()).rev() {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (*state >> 33) as usize % (last + 1));
    }
}

/// Adam with its usual constants.
#[derive(Default)]
struct Adam {
    updates: i32,
    /// What the means of the moments are divided by.
    unbiased: [f32; 2],
}

impl Adam {
    const DECAYS: [f32; 2] = [0.9, 0.999];

    fn start(&mut self) {
        self.updates += 1;
        self.unbiased = Self::DECAYS.map(|decay| 1.0 - decay.powi(self.updates));
    }

    fn update(&self, choice: &mut Choice, gradient: f32) {
        let [first, second] = Self::DECAYS;
        let Choice { mean, square, variable, .. } = choice;
        *mean += (1.0 - first) * (gradient - *mean);
        *square += (1.0 - second) * (gradient * gradient - *square);
        let step = (*mean / self.unbiased[0]) / ((*square / self.unbiased[1]).sqrt() + 1e-8);
        *variable -= RATE * step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::ActivationScheme;
    use crate::weights::{Grid, WeightFormat};

    #[test]
    fn errors_of_similar_inputs_cancel() {
        let input = ActivationScheme::try_new(0.01, 0).expect("valid");
        let weights = [0.7, 0.34, 0.345, 0.33];
        let format = WeightFormat::try_new(4).expect("supported");
        let mut grid = Grid::fit(&weights, &[0.0], format, input).expect("finite");
        grid.scales[0] = 0.1;
        let geometry = ConvGeometry::try_new(ConvShape::new(1, [4, 1], [1, 1], [1, 1]));
        let geometry = geometry.expect("valid");
        let x = [0.1, 1.0, 1.02, 0.98, 0.3, 0.5, 0.49, 0.51];
        let problem = Problem { geometry, grid: &grid, weights: &weights, x: &x, samples: 2 };
        let levels = round(&problem);
        // The sum is 1.015: nearest codes give 0.9, one of them up gives 1.0.
        assert_eq!(grid.nearest(&weights), [7, 3, 3, 3]);
        assert_eq!(levels[1..].iter().sum::<i32>(), 10, "{levels:?}");
        assert_eq!(levels[0], 7);
    }

    #[test]
    fn the_slope_of_the_sigmoid_is_its_derivative() {
        for variable in [-3.0, -2.0, -0.3, 0.0, 1.7, 2.6] {
            let width = 1e-2;
            let change = sigmoid(variable + width).0 - sigmoid(variable - width).0;
            let right = change / (2.0 * width);
            assert!((sigmoid(variable).1 - right).abs() < 1e-4, "{variable}");
        }
        for value in [0.0, 0.25, 0.5, 1.0] {
            assert!((sigmoid(inverse_sigmoid(value)).0 - value).abs() < 1e-6);
        }
    }
}
