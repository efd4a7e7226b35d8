//! The learning-rate range test.

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use updraft_precision::{LossScale, LossScaler};

use crate::error::TrainError;
use crate::events::Control;
use crate::guard::NonFinite;
use crate::step::{StepAt, StepSettings, train_step_accumulated};
use crate::stream::BatchStream;
use crate::task::Task;

/// The largest number of updates of a test: each is a point in memory and in the report.
const MOST_STEPS: usize = 1_000_000;

/// Weight of the loss so far in the smoothed loss.
const MEMORY: f64 = 0.9;

/// The smallest number of losses for a line fit.
const LEAST_WINDOW: usize = 5;

/// The t-value of a slope that chance reaches in one test of a hundred (simulated, 2000 tests).
const CLEAR: f64 = 4.0;

/// The test ends where the smoothed loss exceeds its best by this factor.
const DIVERGED: f64 = 4.0;

/// The learning rates to try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LrRange {
    /// The first learning rate, above 0.
    pub from: f64,
    /// The last learning rate, above the first.
    pub to: f64,
    /// The number of updates, 10 to a million.
    pub steps: usize,
}

/// From far too small to far too large for any optimizer; fifty updates per decade, so that the
/// loss falls by more than its noise between batches.
impl Default for LrRange {
    fn default() -> Self {
        Self { from: 1e-6, to: 1.0, steps: 300 }
    }
}

impl LrRange {
    /// Checks the ranges of all values.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let Self { from, to, steps } = self;
        let (is_from, is_to) = (from.is_finite() && *from > 0.0, to.is_finite() && to > from);
        TrainError::check(&[
            ("from", from, is_from, "a finite learning rate above 0"),
            ("to", to, is_to, "a finite learning rate above the first"),
            ("steps", steps, (10..=MOST_STEPS).contains(steps), "10 to 1000000 updates"),
        ])
    }

    /// The learning rate of an update: `from·(to/from)^(step/(steps − 1))`.
    #[must_use]
    pub fn rate(&self, step: usize) -> f64 {
        self.from * (self.to / self.from).powf(step as f64 / (self.steps - 1) as f64)
    }
}

/// One update of a range test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LrPoint {
    /// The learning rate of the update.
    pub learning_rate: f64,
    /// The batch's loss before the update.
    pub loss: f64,
    /// The losses so far, smoothed exponentially and corrected for the start.
    pub smoothed: f64,
}

/// Trains a copy of a model while the learning rate grows, and records the loss.
///
/// The given model is not changed: the copy has statistics of its own. The device's random state is
/// seeded once; the batches are those of the stream's first epochs. The test ends early if the
/// smoothed loss is four times its best or not finite. `None` if `poll`, called after each update
/// with their number, returns [`Control::Stop`].
///
/// # Errors
/// [`TrainError::Setting`], [`TrainError::NoBatches`], [`TrainError::Precision`],
/// [`TrainError::Data`], or [`TrainError::Gradient`] if a loss scale cannot be removed.
///
/// # Panics
/// As the task.
///
/// # Source
/// Smith 2017, arXiv:1506.01186, section 3.3.
pub fn find_learning_rate<M: Module, T: Task<M>>(
    task: &T,
    model: &M,
    mut optimizer: ModuleOptimizer,
    train: &dyn BatchStream<T::Batch>,
    (device, seed): (&Device, u64),
    (step, loss_scale, range): (&StepSettings, LossScale, &LrRange),
    poll: &mut dyn FnMut(usize) -> Control,
) -> Result<Option<Vec<LrPoint>>, TrainError> {
    range.validate()?;
    if train.batches() == 0 {
        let (samples, batch) = (train.samples(), train.batch());
        return Err(TrainError::NoBatches { samples, batch });
    }
    let settings = StepSettings { non_finite: NonFinite::Ignore, clip_norm: None, ..step.clone() };
    let mut scaler = LossScaler::try_new(loss_scale)?;
    device.seed(seed);
    let mut copy = model.valid().train();
    let mut points: Vec<LrPoint> = Vec::new();
    let (mut sum, mut best) = (0.0, f64::INFINITY);
    let epochs = (0..).flat_map(|epoch| train.epoch(epoch).map(move |batch| (epoch, batch)));
    for (index, (epoch, batch)) in epochs.take(range.steps).enumerate() {
        let learning_rate = range.rate(index);
        let batch = batch.and_then(|batch| task.place(batch, device));
        let batch = batch.map_err(|cause| TrainError::Data { epoch, split: "training", cause });
        let at = StepAt { epoch, step: index as u64, learning_rate, seed };
        let (model, outcome) = train_step_accumulated(
            task,
            copy,
            &mut optimizer,
            &mut scaler,
            &mut [batch].into_iter(),
            &settings,
            at,
        )?;
        copy = model;
        sum = MEMORY * sum + (1.0 - MEMORY) * outcome.loss;
        let smoothed = sum / (1.0 - MEMORY.powi(index as i32 + 1));
        best = best.min(smoothed);
        points.push(LrPoint { learning_rate, loss: outcome.loss, smoothed });
        if !smoothed.is_finite() || smoothed > DIVERGED * best {
            break;
        }
        if poll(index + 1) != Control::Continue {
            return Ok(None);
        }
    }
    Ok(Some(points))
}

/// The learning rate to train with: where the loss falls fastest over the logarithm of the rate;
/// `None` if no decrease is significant compared with the noise of single batches.
///
/// The slope at a rate is that of a least-squares line through the losses around it: a tenth of
/// all, or a fifth or a third if batches differ much. A decrease counts if it is steeper than four
/// standard errors of its line and leads below the losses of smaller rates, so that the recovery
/// from a spike does not count. Half a window at both ends has no line.
#[must_use]
pub fn suggest_learning_rate(points: &[LrPoint]) -> Option<f64> {
    let finite = points.iter().map(|point| point.loss).take_while(|loss| loss.is_finite());
    let losses: Vec<f64> = finite.collect();
    // Below a millionth of the loss, slopes are rounding errors.
    let noise = noise(&losses).max(1e-6 * losses.first()?.abs());
    [10, 5, 3].into_iter().find_map(|share| {
        let width = (losses.len() / share).max(LEAST_WINDOW);
        let middle = steepest_fall(&losses, width, noise)?;
        Some(points[middle].learning_rate)
    })
}

/// The middle of the window of this size whose line falls fastest.
fn steepest_fall(losses: &[f64], width: usize, noise: f64) -> Option<usize> {
    let count = width as f64;
    let reach = (count - 1.0) / 2.0;
    // Σ(i − reach)² over a window.
    let squares = count * (count * count - 1.0) / 12.0;
    let lines: Vec<(f64, f64)> = losses
        .windows(width)
        .map(|window| {
            let mean = window.iter().sum::<f64>() / count;
            let places = (0..width).map(|place| place as f64 - reach);
            let slope = window.iter().zip(places).map(|(loss, x)| x * loss).sum::<f64>() / squares;
            (mean, slope)
        })
        .collect();
    let steep = -CLEAR * noise / squares.sqrt();
    let mut lowest = f64::INFINITY;
    let mut found: Option<(f64, usize)> = None;
    for (start, &(mean, slope)) in lines.iter().enumerate() {
        if start >= width {
            lowest = lowest.min(lines[start - width].0);
        }
        let next = lines.get(start + width / 2).or(lines.last()).map_or(mean, |line| line.0);
        let is_deep = next < lowest;
        if is_deep && slope < steep && found.is_none_or(|(steepest, _)| slope < steepest) {
            found = Some((slope, start + width / 2));
        }
    }
    found.map(|(_, middle)| middle)
}

/// The standard deviation of single losses around their trend: of normal noise the differences of
/// neighbors have √2 of it, and the median of their amounts is 0.6745 of that.
fn noise(losses: &[f64]) -> f64 {
    let mut steps: Vec<f64> = losses.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 2).map_or(0.0, |median| median / (0.6745 * 2.0_f64.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(loss: impl Fn(f64) -> f64) -> Vec<LrPoint> {
        let range = LrRange { from: 1e-5, to: 10.0, steps: 61 };
        let point = |step| {
            let learning_rate = range.rate(step);
            let loss = loss(learning_rate);
            LrPoint { learning_rate, loss, smoothed: loss }
        };
        (0..range.steps).map(point).collect()
    }

    #[test]
    fn rates_grow_by_one_factor_from_the_first_to_the_last() {
        let range = LrRange { from: 1e-4, to: 1.0, steps: 11 };
        assert!((range.rate(0) - 1e-4).abs() < 1e-18);
        assert!((range.rate(5) - 1e-2).abs() < 1e-15);
        assert!((range.rate(10) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_steepest_fall_before_the_minimum_is_suggested() {
        // A logistic fall around 10⁻² on a logarithmic axis, then a rise from 1 on.
        let points = curve(|rate| {
            2.0 - 1.0 / (1.0 + (-3.0 * (rate.log10() + 2.0)).exp()) + (rate - 1.0).max(0.0)
        });
        let found = suggest_learning_rate(&points).expect("it falls");
        assert!((found.log10() + 2.0).abs() < 0.3, "{found}");
        assert_eq!(suggest_learning_rate(&curve(|rate| 1.0 + rate)), None);
        assert_eq!(suggest_learning_rate(&[]), None);
    }

    /// Losses of so many batches that fall from 1 to a half about a rate, with noise of a tenth.
    fn noisy(seed: u64, falls_at: f64) -> Vec<LrPoint> {
        let range = LrRange { steps: 100, ..LrRange::default() };
        let (mut sum, mut state) = (0.0, seed);
        let point = |step: usize| {
            let learning_rate = range.rate(step);
            // The sum of twelve even numbers is nearly normal; a generator of Knuth's.
            let normal: f64 = (0..12).fold(-6.0, |sum, _| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                sum + (state >> 11) as f64 / (1_u64 << 53) as f64
            });
            let away = learning_rate.log10() - falls_at;
            let loss = 1.0 - 0.5 / (1.0 + (-4.0 * away).exp()) + 0.1 * normal;
            sum = MEMORY * sum + (1.0 - MEMORY) * loss;
            let smoothed = sum / (1.0 - MEMORY.powi(step as i32 + 1));
            LrPoint { learning_rate, loss, smoothed }
        };
        (0..range.steps).map(point).collect()
    }

    #[test]
    fn a_fall_is_found_early_and_late_in_noise_and_none_where_there_is_only_noise() {
        for falls_at in [-4.5, -3.0, -1.0] {
            for seed in 0..40 {
                let found = suggest_learning_rate(&noisy(seed, falls_at)).expect("it falls");
                assert!((found.log10() - falls_at).abs() < 1.0, "{falls_at} {seed}: {found}");
            }
        }
        // A fall far beyond the last rate leaves noise alone.
        let chance = (0..100).filter(|&seed| suggest_learning_rate(&noisy(seed, 9.0)).is_some());
        assert!(chance.count() <= 3, "noise is taken for a fall");
    }

    #[test]
    fn the_way_back_from_a_spike_is_no_fall() {
        let spike = |rate: f64| 3.0 * (-8.0 * (rate.log10() + 1.0).powi(2)).exp();
        let points = curve(|rate| 1.0 - 0.1 * (rate.log10() + 5.0).min(2.0) + spike(rate));
        let found = suggest_learning_rate(&points).expect("it falls slowly before");
        assert!(found < 1e-2, "{found}");
        assert_eq!(suggest_learning_rate(&curve(|rate| 1.0 + spike(rate))), None);
    }

    #[test]
    fn ranges_that_go_nowhere_are_refused_by_name() {
        for (range, name) in [
            (LrRange { from: 0.0, ..LrRange::default() }, "`from`"),
            (LrRange { to: 1e-9, ..LrRange::default() }, "`to`"),
            (LrRange { steps: 3, ..LrRange::default() }, "`steps`"),
        ] {
            let error = range.validate().expect_err("refused").to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
