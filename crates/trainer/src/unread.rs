//! Updates whose numbers stay on the device, to be read several at a time.

use burn::module::{Module, Param};
use burn::optim::ModuleOptimizer;
use burn::tensor::Tensor;
use updraft_precision::{LossScaler, norm_of};

use crate::accumulate::GradientMean;
use crate::batch_numbers::{BatchNumbers, BatchTensors};
use crate::batch_pass::{BatchPass, Passed};
use crate::error::TrainError;
use crate::guard::NonFinite;
use crate::metric::{LossSums, Score};
use crate::monitor::{PhaseClock, StepTimes};
use crate::paths::{PathVisitor, visit_paths};
use crate::ranks::has_gradient;
use crate::step::{Gradients, Placed, StepAt, StepOutcome, StepSettings, first_batch};
use crate::task::Task;
use crate::tensors::Tensors;

/// An update that was submitted to the device, with the numbers that were not read yet.
pub(crate) struct UnreadUpdate {
    step: u64,
    batches: Vec<BatchTensors>,
    /// Samples of each batch.
    samples: Vec<usize>,
    /// Which parameters had a gradient, in module order.
    has_gradient: Vec<bool>,
    times: StepTimes,
}

/// [`train_step_accumulated`](crate::train_step_accumulated) without a loss scale, without clipping
/// and without a read: the parameters are those that it returns, to the bit.
pub(crate) fn submit_step<M: Module, T: Task<M>>(
    task: &T,
    model: M,
    optimizer: &mut ModuleOptimizer,
    batches: &mut dyn Iterator<Item = Placed<T::Input, T::Target>>,
    settings: &StepSettings,
    at: StepAt,
) -> Result<(M, UnreadUpdate), TrainError> {
    let scaler = LossScaler::none();
    let mut pass = BatchPass::new(task, settings, at)?;
    let mut times = StepTimes::default();
    let mut mean = GradientMean::default();
    let (mut unread, mut samples) = (Vec::new(), Vec::new());
    let mut batch = first_batch(batches)?;
    let model = pass.prepare(model, (&batch.0, &batch.1));
    let device = batch.0.device().expect("an input has at least one tensor");
    let gradients = loop {
        let (given, target) = batch;
        let count = task.samples(&target);
        let mut clock = PhaseClock::start(&device, settings.timing);
        let passed = pass.run(&model, (&given, &target), &scaler, &mut clock, &mut times);
        let Passed { gradients, losses, numbers, .. } = passed;
        mean.add(gradients, count, &model);
        times.backward_us += clock.lap_us();
        samples.push(count);
        if let Some(next) = batches.next().transpose()? {
            unread.push(BatchTensors::new(losses, numbers, None));
            batch = next;
            continue;
        }
        clock.restart();
        let gradients = Gradients::of(mean.into_mean(&model), &model, settings, &scaler);
        unread.push(BatchTensors::new(losses, numbers, gradients.square_sums.clone()));
        times.backward_us += clock.lap_us();
        break gradients;
    };
    let has_gradient = match gradients.square_sums {
        Some(_) => has_gradient(&gradients.mean, &model),
        None => Vec::new(),
    };
    let mut clock = PhaseClock::start(&device, settings.timing);
    let model = optimizer.step(at.learning_rate, model, gradients.mean);
    times.optimizer_us += clock.lap_us();
    Ok((model, UnreadUpdate { step: at.step, batches: unread, samples, has_gradient, times }))
}

impl UnreadUpdate {
    /// Reads the numbers of updates by one transaction; the outcome of one that is not finite is an
    /// error.
    ///
    /// `model` is the one after the last update.
    pub(crate) fn read_all<M: Module, S: Score>(
        mut updates: Vec<Self>,
        non_finite: NonFinite,
        model: &M,
    ) -> Vec<Result<StepOutcome<S>, TrainError>> {
        let together = updates.len();
        let batches = updates.iter_mut().flat_map(|update| std::mem::take(&mut update.batches));
        let mut numbers = BatchTensors::read_all(batches.collect()).into_iter();
        let outcome = |update: Self| {
            let numbers = numbers.by_ref().take(update.samples.len()).collect();
            update.outcome(numbers, non_finite, model, together)
        };
        updates.into_iter().map(outcome).collect()
    }

    fn outcome<M: Module, S: Score>(
        self,
        numbers: Vec<BatchNumbers>,
        non_finite: NonFinite,
        model: &M,
        together: usize,
    ) -> Result<StepOutcome<S>, TrainError> {
        let (step, is_checked) = (self.step, non_finite != NonFinite::Ignore);
        let mut sums = LossSums::default();
        let mut score = S::default();
        let mut gradient_norm = None;
        for (batch, samples) in numbers.iter().zip(self.samples) {
            let loss = batch.loss;
            score.add(&batch.numbers, samples);
            sums.add(loss, &batch.parts, samples);
            if is_checked && !loss.is_finite() {
                let tensor = format!("not known, because {together} updates were read together");
                return Err(TrainError::NonFiniteLoss { step, loss, tensor });
            }
            gradient_norm = is_checked.then(|| norm_of(&batch.squares));
        }
        if gradient_norm.is_some_and(|norm| !norm.is_finite()) {
            let squares = numbers.last().map_or(&[][..], |batch| &batch.squares);
            return Err(bad_norm(step, model, &self.has_gradient, squares));
        }
        let samples = sums.samples;
        let mut means = sums.means();
        let loss = means.next().expect("an update has at least one batch");
        let parts = means.collect();
        let (skipped, times) = (None, self.times);
        Ok(StepOutcome { loss, parts, score, samples, gradient_norm, skipped, times })
    }
}

/// The error about the first gradient whose sum of squares is not finite.
fn bad_norm<M: Module>(step: u64, model: &M, has_gradient: &[bool], squares: &[f64]) -> TrainError {
    let mut paths = Paths(Vec::new());
    visit_paths(model, &mut paths);
    let with_gradient = paths.0.into_iter().zip(has_gradient).filter(|(_, has)| **has);
    let mut norms = with_gradient.zip(squares).map(|((path, _), square)| (path, square.sqrt()));
    let bad = norms.find(|(_, norm)| !norm.is_finite());
    let (path, norm) = bad.expect("the norm of one gradient at least is not finite");
    TrainError::GradientNorm { step, path, norm }
}

struct Paths(Vec<String>);

impl PathVisitor for Paths {
    fn visit<const D: usize>(&mut self, path: &[String], _: &Param<Tensor<D>>) {
        self.0.push(path.join("."));
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;
    use updraft_testing::alone;

    use super::*;
    use crate::batch_numbers::tests::reads;
    use crate::{
        BatchStream, Control, Counted, EpochStream, Event, Losses, OptimizerConfig, Run, RunData,
        RunSettings, StepContext, StepReport, StreamError, list_checkpoints, mean_squared_error,
    };

    /// Learns the sum of two numbers.
    struct Add;

    impl Task<Linear> for Add {
        type Batch = Vec<[f32; 2]>;
        type Input = Tensor<2>;
        type Target = Tensor<2>;
        type Output = Tensor<2>;
        type Score = ();

        fn place(
            &self,
            batch: Self::Batch,
            device: &Device,
        ) -> Result<(Tensor<2>, Tensor<2>), StreamError> {
            let rows = batch.len();
            let input = Tensor::<1>::from_floats(batch.as_flattened(), device);
            let input = input.reshape([rows, 2]);
            Ok((input.clone(), input.sum_dim(1)))
        }

        fn forward(&self, model: &Linear, input: Tensor<2>, _: &StepContext) -> Tensor<2> {
            model.forward(input)
        }

        fn loss(&self, output: &Tensor<2>, target: &Tensor<2>) -> Losses {
            mean_squared_error(output.clone(), target.clone()).into()
        }

        fn samples(&self, target: &Tensor<2>) -> usize {
            target.dims()[0]
        }

        fn example(&self, batch: usize, device: &Device) -> (Tensor<2>, Tensor<2>) {
            (Tensor::ones([batch, 2], device), Tensor::ones([batch, 1], device))
        }
    }

    /// Ten batches of three; one of the second epoch may have a value of its own.
    struct Pairs {
        odd: Option<(usize, f32)>,
    }

    impl BatchStream<Vec<[f32; 2]>> for Pairs {
        fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<Vec<[f32; 2]>> + '_> {
            let batch = move |at: usize| {
                let value = (epoch as usize * 10 + at) as f32 / 20.0;
                let value = match self.odd {
                    Some((odd, value)) if odd == at && epoch == 1 => value,
                    _ => value,
                };
                Ok(vec![[value, 0.5], [1.0, 0.25], [0.125, -value]])
            };
            Box::new(Counted::new((0..self.batches()).map(batch)))
        }

        fn batches(&self) -> usize {
            10
        }

        fn samples(&self) -> usize {
            30
        }

        fn batch(&self) -> usize {
            3
        }
    }

    struct Outcome {
        weights: Result<Vec<f32>, TrainError>,
        reports: Vec<StepReport>,
        reads: usize,
        /// The updates of the checkpoints that were written.
        saved: Vec<u64>,
    }

    fn train(read_every: u64, change: &dyn Fn(&mut RunSettings), stream: &Pairs) -> Outcome {
        let folder = tempfile::tempdir().expect("a folder");
        let device = Device::flex().autodiff();
        device.seed(1);
        let model = LinearConfig::new(2, 1).init(&device);
        let _ = (model.weight.val(), model.bias.as_ref().map(Param::val));
        let mut settings = RunSettings::new(2, folder.path());
        settings.read_every = read_every;
        settings.criterion = "train-loss".parse().expect("a criterion");
        settings.checkpoints.keep_last = 100;
        change(&mut settings);
        let mut reports = Vec::new();
        let before = reads();
        let run = Run::new(
            model,
            OptimizerConfig::Adamw { weight_decay: 0.0, betas: [0.9, 0.999] }.init(),
        );
        let data = RunData { train: stream, test: None };
        let finished = run.train(&Add, &settings, data, &device, &mut |event, _| {
            if let Event::Step(report) = event {
                reports.push(report.clone());
            }
            Control::Continue
        });
        let reads = reads() - before;
        let weights =
            finished.map(|finished| finished.model.weight.val().into_data().iter().collect());
        let saved = list_checkpoints(folder.path()).expect("a folder");
        let saved = saved.iter().filter_map(|path| crate::checkpoint_step(path)).collect();
        Outcome { weights, reports, reads, saved }
    }

    /// A report without what a clock measured.
    fn timeless(report: &StepReport) -> StepReport {
        let (times, at_us, step_us) = Default::default();
        StepReport { times, at_us, step_us, ..report.clone() }
    }

    #[test]
    fn the_device_is_read_once_for_several_updates_and_nothing_else_changes() {
        let _alone = alone();
        let stream = Pairs { odd: None };
        let each = train(1, &|_| {}, &stream);
        let expected: Vec<_> = each.reports.iter().map(timeless).collect();
        assert_eq!((each.reads, expected.len()), (20, 20));
        // Each epoch of ten updates ends a group.
        for (read_every, reads) in [(2, 10), (4, 6), (10, 2), (1000, 2)] {
            let together = train(read_every, &|_| {}, &stream);
            assert_eq!(together.reads, reads, "{read_every}");
            let found: Vec<_> = together.reports.iter().map(timeless).collect();
            assert_eq!(found, expected, "{read_every}");
            let bits = |outcome: &Outcome| -> Vec<u32> {
                outcome.weights.as_ref().expect("a run").iter().map(|w| w.to_bits()).collect()
            };
            assert_eq!(bits(&together), bits(&each), "{read_every}");
        }
        // Three batches an update are read with it, a checkpoint ends a group.
        let accumulated = |settings: &mut RunSettings| {
            settings.accumulate = 3;
            settings.checkpoints.every_steps = Some(3);
        };
        let each = train(1, &accumulated, &stream);
        let together = train(4, &accumulated, &stream);
        assert_eq!((each.reads, together.reads), (20, 4));
        assert_eq!(together.saved, each.saved);
        let of = |outcome: &Outcome| outcome.reports.iter().map(timeless).collect::<Vec<_>>();
        assert_eq!(of(&together), of(&each));
    }

    #[test]
    fn what_is_not_finite_ends_the_run_with_the_update_that_had_it() {
        let _alone = alone();
        // Update 14; the fourth of a group of four begins at update 10.
        for (value, expected) in [
            (f32::NAN, "step 14: the loss is NaN; not finite first: not known, because 4 updates"),
            (1e19, "step 14: the norm of the gradient of `weight` is inf; lower"),
        ] {
            let stream = Pairs { odd: Some((4, value)) };
            let each = train(1, &|_| {}, &stream);
            let together = train(4, &|_| {}, &stream);
            let message = together.weights.expect_err("not finite").to_string();
            assert!(message.starts_with(expected), "{message}");
            assert_eq!(together.reports.len(), each.reports.len());
            assert!(each.weights.is_err());
            assert_eq!(together.saved, [10], "no checkpoint of what came after");
            let ignored = |settings: &mut RunSettings| settings.step.non_finite = NonFinite::Ignore;
            let ignored = train(4, &ignored, &stream);
            assert!(ignored.weights.is_ok(), "checked, though it is to be ignored");
            assert!(ignored.reports.iter().all(|report| report.gradient_norm.is_none()));
        }
    }

    #[test]
    fn what_needs_the_numbers_before_an_update_is_refused() {
        let _alone = alone();
        let changes: [&dyn Fn(&mut RunSettings); 4] = [
            &|settings| settings.step.clip_norm = Some(1.0),
            &|settings| settings.step.non_finite = NonFinite::Skip { at_most: 1 },
            &|settings| settings.loss_scale = updraft_precision::LossScale::Static { scale: 8.0 },
            &|settings| settings.read_every = 0,
        ];
        for change in changes {
            let error = train(2, change, &Pairs { odd: None }).weights.expect_err("refused");
            assert!(error.to_string().starts_with("`read_every` is"), "{error}");
        }
        let several = RunSettings { read_every: 2, ..RunSettings::new(1, "unused") };
        let error = several.check_for_several_ranks().expect_err("refused").to_string();
        assert!(error.starts_with("`read_every` is 2; "), "{error}");
    }
}
