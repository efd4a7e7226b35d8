//! The range test: which learning rates a model learns at.

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

/// Weight of the loss so far in the smoothed loss.
const MEMORY: f64 = 0.9;

/// The first points are smoothed over too few losses to be compared: about `1/(1 − MEMORY)`.
const SETTLED: usize = 10;

/// The test ends where the smoothed loss exceeds its best by this factor.
const DIVERGED: f64 = 4.0;

/// Which learning rates are tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LrRange {
    /// The first learning rate, above 0.
    pub from: f64,
    /// The last learning rate, above the first.
    pub to: f64,
    /// How many updates go from one to the other, at least 10.
    pub steps: usize,
}

/// From far too small to far too large for any optimizer.
impl Default for LrRange {
    fn default() -> Self {
        Self { from: 1e-6, to: 1.0, steps: 100 }
    }
}

impl LrRange {
    /// Checks the ranges of its numbers.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        let refuse = |name, value: String, expected: &'static str| {
            Err(TrainError::setting(name, value, expected))
        };
        if !(self.from.is_finite() && self.from > 0.0) {
            return refuse("from", self.from.to_string(), "a finite learning rate above 0");
        }
        if !(self.to.is_finite() && self.to > self.from) {
            return refuse("to", self.to.to_string(), "a finite learning rate above the first");
        }
        if self.steps < 10 {
            return refuse("steps", self.steps.to_string(), "at least 10 updates");
        }
        Ok(())
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
/// The given model is not changed: the copy has statistics of its own. The device's random state
/// is seeded once; batches are those of the stream's first epochs. The test ends early where the
/// smoothed loss is four times its best or not finite. `None` if `poll`, called
/// after each update with their number, returns [`Control::Stop`].
///
/// # Errors
/// [`TrainError::Setting`], [`TrainError::NoBatches`], [`TrainError::Precision`],
/// [`TrainError::Data`], or [`TrainError::Gradient`] where a loss scale cannot be taken out.
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
    let settings = StepSettings { non_finite: NonFinite::Ignore, clip_norm: None, ..*step };
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
        if poll(index + 1) == Control::Stop {
            return Ok(None);
        }
    }
    Ok(Some(points))
}

/// The learning rate to train with: where the smoothed loss falls fastest over the logarithm of
/// the rate, among the rates before its minimum; `None` where it never falls.
///
/// The slope is taken over a tenth of the points, because neighbors differ by chance.
#[must_use]
pub fn suggest_learning_rate(points: &[LrPoint]) -> Option<f64> {
    let finite = points.iter().take_while(|point| point.smoothed.is_finite());
    let points: Vec<&LrPoint> = finite.collect();
    let width = (points.len() / 10).max(2);
    let lowest =
        points.iter().enumerate().min_by(|(_, a), (_, b)| a.smoothed.total_cmp(&b.smoothed))?.0;
    let slopes = (SETTLED + width..=lowest).map(|end| {
        let begin = points[end - width];
        let fall = points[end].smoothed - begin.smoothed;
        let middle = points[end - width / 2].learning_rate;
        (fall / (points[end].learning_rate / begin.learning_rate).ln(), middle)
    });
    slopes
        .filter(|(slope, _)| *slope < 0.0)
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, rate)| rate)
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
