//! Updates whose numbers stay on the device, to be read several at a time.

use burn::module::{Module, Param};
use burn::optim::ModuleOptimizer;
use burn::tensor::Tensor;
use updraft_optim::controlled;
use updraft_precision::{LossScaler, PrecisionError, norm_of};

use crate::accumulate::GradientMean;
use crate::batch_numbers::{BatchLayout, BatchNumbers, BatchTensors};
use crate::batch_pass::{BatchPass, Passed};
use crate::buffers::Buffers;
use crate::decisions::{Decided, Decision, Decisions};
use crate::device_read::Packed;
use crate::error::TrainError;
use crate::guard::{NonFinite, Skipped};
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
    /// The numbers of all batches, then those of the decision.
    packed: Packed,
    batches: Vec<BatchLayout>,
    /// Samples of each batch.
    samples: Vec<usize>,
    /// Which parameters had a gradient, in module order.
    has_gradient: Vec<bool>,
    /// What the device decided, if the update depends on its numbers.
    pub(crate) decision: Option<Decision>,
    times: StepTimes,
}

/// The numbers of an update after the read.
pub(crate) struct ReadUpdate<S> {
    pub(crate) outcome: StepOutcome<S>,
    /// Its loss scale, if the loss is scaled.
    pub(crate) loss_scale: Option<f64>,
}

/// What updates are compared with when they are read.
pub(crate) struct Reading<'a, M> {
    pub(crate) non_finite: NonFinite,
    /// The loss scale of the first of them; it follows what the device decided.
    pub(crate) scaler: &'a mut LossScaler,
    /// The model after the last of them.
    pub(crate) model: &'a M,
}

/// An update without its batches, which moved no parameter.
pub(crate) struct NotSubmitted<M> {
    /// The model, whose running statistics may count batches of this update.
    pub(crate) model: M,
    pub(crate) cause: TrainError,
}

/// [`train_step_accumulated`](crate::train_step_accumulated) without a read.
///
/// Without `decisions` there is no loss scale, no clipping and no skipped update, and the parameters
/// are those that it returns, to the bit. With them the device decides; a skipped update leaves
/// parameters, optimizer state and running statistics as they are, to the bit.
pub(crate) fn submit_step<M: Module, T: Task<M>>(
    task: &T,
    model: M,
    optimizer: &mut ModuleOptimizer,
    batches: &mut dyn Iterator<Item = Placed<T::Input, T::Target>>,
    (settings, at): (&StepSettings, StepAt),
    mut decisions: Option<&mut Decisions>,
) -> Result<(M, UnreadUpdate), NotSubmitted<M>> {
    let can_skip = decisions.as_ref().is_some_and(|decisions| decisions.can_skip());
    let before = can_skip.then(|| Buffers::of(&model));
    let mut pass = match BatchPass::new(task, settings, at) {
        Ok(pass) => pass,
        Err(cause) => return Err(NotSubmitted { model, cause }),
    };
    let mut times = StepTimes::default();
    let mut mean = GradientMean::default();
    let (mut layouts, mut samples) = (Vec::new(), Vec::new());
    let (mut unread, mut losses_of_batches) = (Vec::new(), Vec::new());
    let mut batch = match first_batch(batches) {
        Ok(batch) => batch,
        Err(cause) => return Err(NotSubmitted { model, cause }),
    };
    let model = pass.prepare(model, (&batch.0, &batch.1));
    let device = batch.0.device().expect("an input has at least one tensor");
    let (gradients, decision) = loop {
        let (given, target) = batch;
        let count = task.samples(&target);
        let mut clock = PhaseClock::start(&device, settings.timing);
        let scale = |loss: Tensor<1>| match &decisions {
            Some(decisions) => decisions.scale_loss(loss),
            None => loss,
        };
        let passed = pass.run(&model, (&given, &target), &scale, &mut clock, &mut times);
        let Passed { gradients, losses, numbers, .. } = passed;
        mean.add(gradients, count, &model);
        times.backward_us += clock.lap_us();
        samples.push(count);
        losses_of_batches.push(losses.total.clone().without_autodiff());
        let next = match batches.next().transpose() {
            Ok(next) => next,
            Err(cause) => return Err(NotSubmitted { model, cause }),
        };
        clock.restart();
        let (gradients, decision) = match (&next, &mut decisions) {
            (Some(_), _) => (None, None),
            (None, None) => {
                let mean = std::mem::take(&mut mean).into_mean(&model);
                (Some(Gradients::of(mean, &model, settings, &LossScaler::none())), None)
            }
            (None, Some(decisions)) => {
                let mean = std::mem::take(&mut mean).into_mean(&model);
                let losses = std::mem::take(&mut losses_of_batches);
                let decision = decisions.decide((&mean, &model), losses, settings);
                (Some(Gradients::unmeasured(mean)), Some(decision))
            }
        };
        let squares = gradients.as_ref().and_then(|gradients| gradients.square_sums.clone());
        let (layout, tensors) = BatchTensors::new(losses, numbers, squares).into_tensors();
        layouts.push(layout);
        unread.extend(tensors);
        times.backward_us += clock.lap_us();
        match (next, gradients) {
            (Some(next), _) => batch = next,
            (None, gradients) => {
                break (gradients.expect("the last batch completes them"), decision);
            }
        }
    };
    unread.extend(decision.iter().flat_map(Decision::tensors));
    let has_gradient = match gradients.square_sums {
        Some(_) => has_gradient(&gradients.mean, &model),
        None => Vec::new(),
    };
    let mut clock = PhaseClock::start(&device, settings.timing);
    let rate = at.learning_rate;
    let model = match &decision {
        None => optimizer.step(rate, model, gradients.mean),
        Some(Decision { control, is_applied, .. }) => {
            let model = controlled(control, || optimizer.step(rate, model, gradients.mean));
            match before {
                Some(before) => before.restore_unless(is_applied.clone(), model),
                None => model,
            }
        }
    };
    times.optimizer_us += clock.lap_us();
    let (step, packed) = (at.step, Packed::of(unread));
    let batches = layouts;
    Ok((model, UnreadUpdate { step, packed, batches, samples, has_gradient, decision, times }))
}

impl UnreadUpdate {
    /// Reads the numbers of updates by one read of the device; the outcome of one that is not finite
    /// is an error, unless it was skipped.
    pub(crate) fn read_all<M: Module, S: Score>(
        updates: Vec<Self>,
        mut reading: Reading<'_, M>,
    ) -> Vec<Result<ReadUpdate<S>, TrainError>> {
        let together = updates.len();
        let (packs, updates): (Vec<_>, Vec<_>) = updates.into_iter().map(Self::unpacked).unzip();
        let outcome = |(update, numbers): (Submitted, Vec<Vec<f64>>)| {
            let scaler = &reading.scaler;
            let loss_scale = (!scaler.is_none()).then_some(scaler.scale());
            let outcome = update.outcome(numbers, &mut reading, together);
            outcome.map(|outcome| ReadUpdate { outcome, loss_scale })
        };
        updates.into_iter().zip(Packed::read_all(packs)).map(outcome).collect()
    }

    fn unpacked(self) -> (Packed, Submitted) {
        let Self { step, packed, batches, samples, has_gradient, decision, times } = self;
        let is_decided = decision.is_some();
        (packed, Submitted { step, batches, samples, has_gradient, is_decided, times })
    }
}

/// An update without its tensors.
struct Submitted {
    step: u64,
    batches: Vec<BatchLayout>,
    samples: Vec<usize>,
    has_gradient: Vec<bool>,
    is_decided: bool,
    times: StepTimes,
}

impl Submitted {
    fn outcome<M: Module, S: Score>(
        self,
        numbers: Vec<Vec<f64>>,
        reading: &mut Reading<'_, M>,
        together: usize,
    ) -> Result<StepOutcome<S>, TrainError> {
        let mut numbers = numbers.into_iter();
        let batches: Vec<BatchNumbers> =
            self.batches.iter().map(|layout| layout.numbers(&mut numbers)).collect();
        let decided = self.is_decided.then(|| Decided::of(&mut numbers));
        let is_checked = reading.non_finite != NonFinite::Ignore;
        let mut sums = LossSums::default();
        let mut score = S::default();
        let mut bad_loss = None;
        for (batch, samples) in batches.iter().zip(&self.samples) {
            score.add(&batch.numbers, *samples);
            sums.add(batch.loss, &batch.parts, *samples);
            if is_checked && !batch.loss.is_finite() {
                // An update that reads each batch ends with it.
                bad_loss = Some(batch.loss);
                break;
            }
        }
        let (step, unknown) =
            (self.step, format!("not known, because {together} updates were read together"));
        if let Some(loss) = bad_loss
            && !reading.non_finite.skips()
        {
            return Err(TrainError::NonFiniteLoss { step, loss, tensor: unknown });
        }
        let (gradient_norm, skipped) = match decided {
            Some(Decided { norm, is_applied: true, .. }) => {
                reading.scaler.follow_good();
                (Some(norm), None)
            }
            Some(_) if bad_loss.is_some() => {
                let tensor = format!("the loss; the tensor is {unknown}");
                (None, Some(Skipped::NotFinite { tensor }))
            }
            Some(_) => (None, Some(reading.skipped_gradients(step, unknown)?)),
            None => {
                let squares = batches.last().map_or(&[][..], |batch| &batch.squares);
                let norm = is_checked.then(|| norm_of(squares));
                if norm.is_some_and(|norm| !norm.is_finite()) {
                    return Err(bad_norm(step, reading.model, &self.has_gradient, squares));
                }
                (norm, None)
            }
        };
        let samples = sums.samples;
        let mut means = sums.means();
        let loss = means.next().expect("an update has at least one batch");
        let parts = means.collect();
        let times = self.times;
        Ok(StepOutcome { loss, parts, score, samples, gradient_norm, skipped, times })
    }
}

impl<M> Reading<'_, M> {
    /// Why an update was skipped whose gradients were not finite, or an error if it must not be.
    fn skipped_gradients(&mut self, step: u64, unknown: String) -> Result<Skipped, TrainError> {
        let scale = self.scaler.scale();
        if self.scaler.follow_overflow() {
            return Ok(Skipped::Overflow { scale });
        }
        if self.scaler.is_dynamic() {
            let (skips, path) = (self.scaler.state().skips, unknown);
            let cause = PrecisionError::TooManySkips { skips, path, scale };
            return Err(TrainError::Gradient { step, cause });
        }
        if self.non_finite.skips() {
            let tensor = format!("the gradients; the tensor is {unknown}");
            return Ok(Skipped::NotFinite { tensor });
        }
        Err(TrainError::GlobalNorm { step })
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
    use updraft_precision::{DynamicScale, LossScale};
    use updraft_testing::{alone, assert_close, tolerance};

    use super::*;
    use crate::device_read::tests::reads;
    use crate::{
        BatchStream, Control, Counted, EmaConfig, EpochStream, Event, Lookahead, Losses,
        OptimizerConfig, Run, RunData, RunSettings, StepContext, StepReport, StreamError, Transfer,
        list_checkpoints, mean_squared_error,
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
            if rows == 0 {
                return Err("an empty batch".into());
            }
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

    /// The same, of which the sixth batch cannot be delivered, or cannot be placed.
    struct Broken {
        pairs: Pairs,
        fault: Fault,
    }

    #[derive(Debug, Clone, Copy)]
    enum Fault {
        /// Of the stream.
        Delivery,
        /// Of [`Task::place`].
        Place,
    }

    impl Fault {
        const ALL: [Self; 2] = [Self::Delivery, Self::Place];

        const fn text(self) -> &'static str {
            match self {
                Self::Delivery => "a broken file",
                Self::Place => "an empty batch",
            }
        }
    }

    impl BatchStream<Vec<[f32; 2]>> for Broken {
        fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<Vec<[f32; 2]>> + '_> {
            let fault = self.fault;
            let fails = move |(at, batch): (usize, Result<_, StreamError>)| match (at, fault) {
                (5, Fault::Delivery) => Err(fault.text().into()),
                (5, Fault::Place) => Ok(Vec::new()),
                _ => batch,
            };
            Box::new(Counted::new(self.pairs.epoch(epoch).enumerate().map(fails)))
        }

        fn batches(&self) -> usize {
            self.pairs.batches()
        }

        fn samples(&self) -> usize {
            self.pairs.samples()
        }

        fn batch(&self) -> usize {
            self.pairs.batch()
        }
    }

    struct Outcome {
        weights: Result<Vec<f32>, TrainError>,
        reports: Vec<StepReport>,
        reads: usize,
        /// The updates of the checkpoints that were written.
        saved: Vec<u64>,
    }

    fn train(
        read_every: u64,
        change: &dyn Fn(&mut RunSettings),
        stream: &dyn BatchStream<Vec<[f32; 2]>>,
    ) -> Outcome {
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

    /// Settings with which the device decides about each update, with the same bits as the host.
    const DECIDED: [fn(&mut RunSettings); 3] = [
        |settings| settings.step.non_finite = NonFinite::Skip { at_most: 2 },
        |settings| settings.loss_scale = LossScale::Static { scale: 1024.0 },
        |settings| {
            // Every other update overflows, far from where the sum of the squares of both gradients
            // overflows in f32 and each of them does not.
            let dynamic = DynamicScale {
                initial: 2.0_f64.powi(90),
                ceiling: 2.0_f64.powi(90),
                growth: 2.0_f64.powi(30),
                backoff: 2.0_f64.powi(-30),
                interval: 1,
                ..DynamicScale::default()
            };
            settings.loss_scale = LossScale::Dynamic(dynamic);
        },
    ];

    /// The numbers of reports without the norms, which the device computes in f32, and without the
    /// names of tensors; and the norms.
    fn compared(outcome: &Outcome) -> (Vec<StepReport>, Vec<f64>) {
        let reports = outcome.reports.iter().map(timeless);
        let reports = reports.map(|report| StepReport {
            gradient_norm: None,
            skipped: report.skipped.map(|_| String::new()),
            // Equal to itself.
            loss: if report.loss.is_nan() { -1.0 } else { report.loss },
            ..report
        });
        let norms = outcome.reports.iter().map(|report| report.gradient_norm.unwrap_or(-1.0));
        (reports.collect(), norms.collect())
    }

    #[test]
    fn what_the_device_decides_is_what_the_host_would_by_one_read_a_group() {
        let _alone = alone();
        let streams = [Pairs { odd: None }, Pairs { odd: Some((4, f32::NAN)) }];
        let mut skipped = [0; 3];
        for (index, change) in DECIDED.iter().enumerate() {
            // NaN is an error without skipped updates.
            for stream in &streams[..if index == 0 { 2 } else { 1 }] {
                for accumulate in [1, 3] {
                    let change = |settings: &mut RunSettings| {
                        change(settings);
                        settings.accumulate = accumulate;
                        settings.ema = Some(EmaConfig { decay: 0.9 });
                        settings.lookahead = Some(Lookahead { every: 3, decay: 0.5, power: 0.0 });
                    };
                    let each = train(1, &change, stream);
                    skipped[index] += each.reports.iter().filter(|it| it.skipped.is_some()).count();
                    for read_every in [2, 4, 1000] {
                        let together = train(read_every, &change, stream);
                        let case = format!("{index}, {accumulate}, {read_every}");
                        let updates = 10_u64.div_ceil(accumulate as u64);
                        let groups = 2 * updates.div_ceil(read_every) as usize;
                        assert_eq!(together.reads, groups + 1, "one more tries it: {case}");
                        let (found, found_norms) = compared(&together);
                        let (expected, norms) = compared(&each);
                        assert_eq!(found, expected, "{case}");
                        assert_close(&found_norms, &norms, tolerance::F32);
                        let bits = |outcome: &Outcome| -> Vec<u32> {
                            let weights = outcome.weights.as_ref().expect("a run");
                            weights.iter().map(|weight| weight.to_bits()).collect()
                        };
                        assert_eq!(bits(&together), bits(&each), "{case}");
                    }
                }
            }
        }
        assert!(skipped[0] > 0 && skipped[1] == 0 && skipped[2] > 0, "{skipped:?}");
    }

    #[test]
    fn clipping_on_the_device_differs_by_rounding_only() {
        let _alone = alone();
        let clipped = |settings: &mut RunSettings| settings.step.clip_norm = Some(0.05);
        let stream = Pairs { odd: None };
        let [each, together] = [1, 4].map(|read_every| train(read_every, &clipped, &stream));
        assert_eq!((each.reads, together.reads), (20, 7));
        let weights =
            [&each, &together].map(|outcome| outcome.weights.as_ref().expect("a run").clone());
        assert_close(&weights[1], &weights[0], tolerance::F32_DEEP);
        let losses = [&each, &together]
            .map(|outcome| outcome.reports.iter().map(|report| report.loss).collect::<Vec<_>>());
        assert_close(&losses[1], &losses[0], tolerance::F32_DEEP);
        let plain = train(1, &|_| {}, &stream).weights.expect("a run");
        assert!(weights[0] != plain, "nothing was clipped");
    }

    #[test]
    fn what_the_device_refuses_ends_the_run_with_the_update() {
        let _alone = alone();
        for (value, expected) in [
            (f32::NAN, "step 14: the loss is NaN; not finite first: not known, because 4 updates"),
            (1e19, "step 14: the norm of the gradients is not finite; lower"),
        ] {
            let stream = Pairs { odd: Some((4, value)) };
            let clipped = |settings: &mut RunSettings| settings.step.clip_norm = Some(1e9);
            let each = train(1, &clipped, &stream);
            let together = train(4, &clipped, &stream);
            assert!(each.weights.is_err());
            let message = together.weights.expect_err("not finite").to_string();
            assert!(message.starts_with(expected), "{message}");
            assert_eq!(together.reports.len(), each.reports.len());
            assert_eq!(together.saved, [10], "no checkpoint of what came after");
        }
        // The fourth of the overflows in a row is one too many.
        let scaled = |settings: &mut RunSettings| {
            let dynamic = DynamicScale {
                initial: 2.0_f64.powi(127),
                ceiling: 2.0_f64.powi(127),
                backoff: 0.99,
                longest_skips: 3,
                ..DynamicScale::default()
            };
            settings.loss_scale = LossScale::Dynamic(dynamic);
        };
        let stream = Pairs { odd: None };
        for read_every in [1, 2, 1000] {
            let outcome = train(read_every, &scaled, &stream);
            let message = outcome.weights.expect_err("too many").to_string();
            assert!(message.starts_with("step 3: "), "{message}");
            let is_named = message.contains("4 steps in a row were skipped");
            assert!(is_named || read_every == 1, "{message}");
            assert_eq!(outcome.reports.len(), 3);
        }
    }

    #[test]
    fn a_skipped_update_leaves_parameters_and_optimizer_as_they_are() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let mut settings = RunSettings::new(1, "unused");
        settings.step.clip_norm = Some(0.1);
        settings.step.non_finite = NonFinite::Skip { at_most: 9 };
        let after = |values: &[f32]| {
            device.seed(1);
            let mut model: Linear = LinearConfig::new(2, 1).init(&device);
            let _ = (model.weight.val(), model.bias.as_ref().map(Param::val));
            let adamw = OptimizerConfig::Adamw { weight_decay: 0.1, betas: [0.9, 0.999] };
            let mut optimizer = adamw.init();
            let mut decisions = Decisions::begin(&device, &settings, LossScaler::none(), 0, None);
            let mut updates = Vec::new();
            let mut bits = Vec::new();
            for (step, value) in (0..).zip(values) {
                let batch = Add.place(vec![[*value, 0.5], [1.0, -0.25]], &device);
                let batch = batch.expect("a batch");
                let at = StepAt { epoch: 0, step, learning_rate: 0.1, seed: 0 };
                let (moved, update) = submit_step(
                    &Add,
                    model,
                    &mut optimizer,
                    &mut std::iter::once(Ok(batch)),
                    (&settings.step, at),
                    Some(&mut decisions),
                )
                .map_err(|failed| failed.cause)
                .expect("submitted");
                model = moved;
                updates.push(update);
                let weights = model.weight.val().into_data();
                bits.push(weights.iter::<f32>().map(f32::to_bits).collect::<Vec<_>>());
            }
            let (non_finite, mut scaler) = (settings.step.non_finite, LossScaler::none());
            let reading = Reading { non_finite, scaler: &mut scaler, model: &model };
            let read = UnreadUpdate::read_all::<_, ()>(updates, reading);
            let skipped = read.into_iter().map(|read| read.expect("skipped").outcome.skipped);
            (bits, skipped.map(|why| why.map(|why| why.to_string())).collect::<Vec<_>>())
        };
        let (bits, skipped) = after(&[0.3, f32::NAN, 1e18, -0.7]);
        let (expected, none) = after(&[0.3, -0.7]);
        assert!(bits[0] == bits[1] && bits[1] == bits[2], "a skipped update moved the model");
        assert_eq!([&bits[0], &bits[3]], [&expected[0], &expected[1]]);
        assert!(bits[3] != bits[2] && none == [None, None]);
        let unknown = "the tensor is not known, because 4 updates were read together";
        let expected = ["the loss", "the gradients"].map(|what| Some(format!("{what}; {unknown}")));
        assert_eq!(skipped[1..3], expected);
        assert!(skipped[0].is_none() && skipped[3].is_none());
    }

    #[test]
    fn updates_before_a_batch_that_cannot_be_delivered_or_placed_are_reported() {
        let _alone = alone();
        let whole = Pairs { odd: None };
        for (read_every, transfer, accumulate, expected) in [
            (1, Transfer::WhenUsed, 1, 5),
            (1, Transfer::Ahead, 1, 5),
            (4, Transfer::WhenUsed, 1, 5),
            (4, Transfer::Ahead, 1, 5),
            (4, Transfer::Ahead, 5, 1),
            // The second and the third batch of the second update.
            (4, Transfer::WhenUsed, 4, 1),
            (4, Transfer::Ahead, 3, 1),
        ] {
            let change = |settings: &mut RunSettings| {
                (settings.transfer, settings.accumulate) = (transfer, accumulate);
            };
            let losses = |outcome: &Outcome| -> Vec<(u64, f64)> {
                outcome.reports.iter().map(|report| (report.step, report.loss)).collect()
            };
            let whole = losses(&train(read_every, &change, &whole));
            for fault in Fault::ALL {
                let stream = Broken { pairs: Pairs { odd: None }, fault };
                let outcome = train(read_every, &change, &stream);
                let found = losses(&outcome);
                let message = outcome.weights.expect_err("a batch is missing").to_string();
                assert!(message.contains(fault.text()), "{message}");
                let case = format!("{fault:?}, {read_every}, {transfer:?}, {accumulate}");
                assert_eq!(found, whole[..expected], "{case}");
            }
        }
    }

    #[test]
    fn an_update_whose_batch_cannot_be_placed_returns_the_model_as_it_was() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let settings = RunSettings::new(1, "unused");
        for accumulate in [1, 2] {
            let model: Linear = LinearConfig::new(2, 1).init(&device);
            let bits = |model: &Linear| -> Vec<u32> {
                model.weight.val().into_data().iter::<f32>().map(f32::to_bits).collect()
            };
            let before = bits(&model);
            let mut optimizer =
                OptimizerConfig::Adamw { weight_decay: 0.1, betas: [0.9, 0.999] }.init();
            let placed = |batch| {
                let placed = Add.place(batch, &device);
                placed.map_err(|cause| TrainError::Data { epoch: 0, split: "training", cause })
            };
            let batches = [vec![[0.5, 0.25]], Vec::new()];
            let mut batches = batches.into_iter().skip(2 - accumulate).map(placed);
            let at = StepAt { epoch: 0, step: 0, learning_rate: 0.1, seed: 0 };
            let step = (&settings.step, at);
            let submitted = submit_step(&Add, model, &mut optimizer, &mut batches, step, None);
            let NotSubmitted { model, cause } = submitted.err().expect("an empty batch");
            assert!(cause.to_string().contains(Fault::Place.text()), "{cause}");
            assert_eq!(bits(&model), before);
            assert!(optimizer.to_record().is_empty(), "no state of an update");
        }
    }

    #[test]
    fn an_interval_without_updates_is_refused() {
        let error = train(0, &|_| {}, &Pairs { odd: None }).weights.expect_err("refused");
        assert!(error.to_string().starts_with("`read_every` is 0; "), "{error}");
    }
}
