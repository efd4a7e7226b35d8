//! Updates that are read together: skipped ones, loss scales, averages, and resumption.

use std::path::Path;

use burn::tensor::{Device, FloatDType, Int, Tensor};
use serde_json::Value;
use updraft_data::ImageBatch;
use updraft_precision::{DynamicScale, LossScale, Norm, Policy};
use updraft_testing::{alone, assert_close, tolerance};
use updraft_trainer::{
    ClassCounts, Control, EmaConfig, Event, Finished, Lookahead, Losses, MetricSpec, Mode,
    NonFinite, OptimizerConfig, ReadEachReason, Run, RunData, RunSettings, StepContext,
    StreamError, Task, checkpoint_contents,
};

use crate::run::casting;
use crate::small::{Classifier, Classify, loader, optimizer, settings, task};

/// The task of the small classifier, with updates that are not finite.
struct Planted {
    inner: Classify<'static, Classifier>,
    /// Updates whose outputs are NaN.
    nan: &'static [u64],
    /// Updates whose loss is finite and whose gradients overflow.
    overflow: &'static [u64],
}

impl Task<Classifier> for Planted {
    type Batch = ImageBatch;
    type Input = Tensor<4>;
    type Target = Tensor<1, Int>;
    type Output = Tensor<2>;
    type Score = ClassCounts;

    fn place(
        &self,
        batch: ImageBatch,
        device: &Device,
    ) -> Result<(Tensor<4>, Tensor<1, Int>), StreamError> {
        self.inner.place(batch, device)
    }

    fn forward(&self, model: &Classifier, images: Tensor<4>, context: &StepContext) -> Tensor<2> {
        let logits = self.inner.forward(model, images, context);
        let is_of = |steps: &[u64]| context.mode == Mode::Training && steps.contains(&context.step);
        if is_of(self.nan) {
            return logits.mul_scalar(f32::NAN);
        }
        if !is_of(self.overflow) {
            return logits;
        }
        let logits = logits.cast(FloatDType::F32);
        let huge = logits.clone().mul_scalar(1e30);
        logits + (huge.clone() - huge.detach())
    }

    fn loss(&self, logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Losses {
        self.inner.loss(logits, classes)
    }

    fn samples(&self, classes: &Tensor<1, Int>) -> usize {
        self.inner.samples(classes)
    }

    fn example(&self, batch: usize, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
        self.inner.example(batch, device)
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        self.inner.metrics()
    }

    fn measure(&self, logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Option<Tensor<1>> {
        self.inner.measure(logits, classes)
    }

    fn values(&self, score: &ClassCounts) -> Vec<Option<f64>> {
        self.inner.values(score)
    }

    fn casts(&self, norm: &Norm) -> bool {
        self.inner.casts(norm)
    }
}

/// A run whose updates depend on their numbers.
struct Case {
    name: &'static str,
    policy: Policy,
    nan: &'static [u64],
    overflow: &'static [u64],
    accumulate: usize,
    loss_scale: LossScale,
}

const PLAIN: Case = Case {
    name: "skipped updates",
    policy: Policy::F32,
    nan: &[3, 4],
    overflow: &[7],
    accumulate: 1,
    loss_scale: LossScale::None,
};

/// Scales that are powers of two, whose factors round nothing.
fn cases() -> [Case; 4] {
    let dynamic = DynamicScale { initial: 1024.0, interval: 3, ..DynamicScale::default() };
    let of_f16 = DynamicScale {
        initial: 2.0_f64.powi(40),
        ceiling: 2.0_f64.powi(40),
        backoff: 2.0_f64.powi(-6),
        growth: 4.0,
        interval: 5,
        ..DynamicScale::default()
    };
    [
        PLAIN,
        Case { name: "skipped updates of two batches", overflow: &[1], accumulate: 2, ..PLAIN },
        Case {
            name: "a dynamic scale with two batches an update",
            loss_scale: LossScale::Dynamic(dynamic),
            overflow: &[1],
            accumulate: 2,
            ..PLAIN
        },
        Case {
            name: "f16",
            policy: Policy::F16_MIXED,
            nan: &[],
            overflow: &[],
            loss_scale: LossScale::Dynamic(of_f16),
            ..PLAIN
        },
    ]
}

impl Case {
    fn settings(&self, folder: &Path, read_every: u64) -> RunSettings {
        let mut settings = settings(folder, 2);
        settings.step.clip_norm = None;
        settings.step.policy = self.policy;
        settings.step.non_finite = NonFinite::Skip { at_most: 2 };
        settings.loss_scale = self.loss_scale;
        settings.accumulate = self.accumulate;
        settings.ema = Some(EmaConfig { decay: 0.9 });
        settings.lookahead = Some(Lookahead { every: 2, decay: 0.7, power: 1.0 });
        settings.checkpoints.every_steps = Some(5);
        RunSettings { read_every, ..settings }
    }

    fn new_run(&self, device: &Device) -> Run<Classifier> {
        Run::new(self.policy.autocast(Classifier::new(device)), optimizer().init())
    }

    fn resumed(&self, checkpoint: &Path, device: &Device) -> Run<Classifier> {
        let other = self.policy.autocast(Classifier::new(device));
        device.seed(99);
        Run::resume(checkpoint, other, optimizer().init()).unwrap()
    }

    /// Trains to the end, or stops after an update.
    fn train(
        &self,
        run: Run<Classifier>,
        settings: &RunSettings,
        stop_after: Option<u64>,
    ) -> (Finished<Classifier>, Vec<Event>) {
        let task = Planted { inner: casting(), nan: self.nan, overflow: self.overflow };
        train(run, &task, settings, stop_after)
    }
}

fn train<T: Task<Classifier, Batch = ImageBatch>>(
    run: Run<Classifier>,
    task: &T,
    settings: &RunSettings,
    stop_after: Option<u64>,
) -> (Finished<Classifier>, Vec<Event>) {
    let device = Device::flex().autodiff();
    let (data, test) = (loader(1), loader(2));
    let data = RunData { train: &data, test: Some(&test) };
    let mut events = Vec::new();
    let finished = run.train(task, settings, data, &device, &mut |event, _| {
        events.push(event.clone());
        match event {
            Event::Step(report) if Some(report.step + 1) == stop_after => Control::Stop,
            _ => Control::Continue,
        }
    });
    (finished.unwrap(), events)
}

/// Steps and epochs without what a clock measured, without norms, which the device computes in f32,
/// and without the names of tensors, which are not known later; and the norms.
fn compared(events: &[Event]) -> (Vec<Value>, Vec<f64>) {
    let mut norms = Vec::new();
    let values = events.iter().filter(|event| matches!(event, Event::Step(_) | Event::Epoch(_)));
    let values = values.map(|event| {
        let mut value = serde_json::to_value(event).unwrap();
        let fields = value.as_object_mut().unwrap();
        fields.retain(|name, _| !(name.ends_with("_us") || name.ends_with("_per_s")));
        norms.extend(fields.remove("gradient_norm").and_then(|norm| norm.as_f64()));
        if let Some(skipped) = fields.get_mut("skipped") {
            *skipped = Value::Bool(true);
        }
        value
    });
    (values.collect(), norms)
}

fn assert_same_events(found: &[Event], expected: &[Event], case: &str) {
    let ((found, found_norms), (expected, norms)) = (compared(found), compared(expected));
    assert_eq!(found, expected, "{case}");
    assert_close(&found_norms, &norms, tolerance::F32);
}

fn skipped(events: &[Event]) -> Vec<u64> {
    let reports = events.iter().filter_map(|event| match event {
        Event::Step(report) => Some(report),
        _ => None,
    });
    reports.filter(|report| report.skipped.is_some()).map(|report| report.step).collect()
}

#[test]
fn updates_that_the_device_decides_about_end_in_the_bits_of_those_of_the_host() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    for case in cases() {
        let folder = tempfile::tempdir().unwrap();
        let (each, expected) =
            case.train(case.new_run(&device), &case.settings(folder.path(), 1), None);
        let contents = checkpoint_contents(&each.checkpoint).unwrap();
        let skipped = skipped(&expected);
        let planted = || case.nan.iter().chain(case.overflow);
        assert!(planted().all(|step| skipped.contains(step)), "{}: {skipped:?}", case.name);
        assert!(!skipped.is_empty(), "{}: nothing was skipped", case.name);
        // A stop takes effect at the end of its group.
        for (read_every, stop_after) in [(4, None), (1000, None), (4, Some(2)), (3, Some(5))] {
            let name = format!("{}, {read_every}, {stop_after:?}", case.name);
            let folder = tempfile::tempdir().unwrap();
            let settings = case.settings(folder.path(), read_every);
            let (mut ended, mut events) = case.train(case.new_run(&device), &settings, stop_after);
            if stop_after.is_some() {
                let run = case.resumed(&ended.checkpoint, &device);
                let (resumed, after) = case.train(run, &settings, None);
                ended = resumed;
                events.extend(after);
            }
            assert_same_events(&events, &expected, &name);
            assert!(ended.model.bits() == each.model.bits(), "{name}: another model");
            assert!(ended.served.bits() == each.served.bits(), "{name}: another average");
            assert_eq!(ended.test, each.test, "{name}");
            assert_eq!(checkpoint_contents(&ended.checkpoint).unwrap(), contents, "{name}");
        }
    }
}

#[test]
fn a_run_continues_the_bits_of_another_interval() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let case = &cases()[2];
    let folder = tempfile::tempdir().unwrap();
    let (each, _) = case.train(case.new_run(&device), &case.settings(folder.path(), 1), None);
    let contents = checkpoint_contents(&each.checkpoint).unwrap();
    for (first, second) in [(1, 4), (2, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let run = case.new_run(&device);
        let (stopped, _) = case.train(run, &case.settings(folder.path(), first), Some(4));
        let run = case.resumed(&stopped.checkpoint, &device);
        let (resumed, _) = case.train(run, &case.settings(folder.path(), second), None);
        let found = checkpoint_contents(&resumed.checkpoint).unwrap();
        assert_eq!(found, contents, "{first}, then {second}");
    }
}

#[test]
fn an_optimizer_that_needs_the_numbers_reads_each_update_and_says_so_once() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let trained = |read_every: u64, clip_norm: Option<f64>| {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = RunSettings { read_every, ..settings(folder.path(), 1) };
        settings.step.clip_norm = clip_norm;
        let adam = OptimizerConfig::Adam { weight_decay: 0.0 };
        let run = Run::new(Classifier::new(&device), adam.init());
        let (finished, events) = train(run, &task(), &settings, None);
        let reasons = events.iter().enumerate().filter_map(|(index, event)| match event {
            Event::ReadEach { reason } => Some((index, *reason)),
            _ => None,
        });
        let reasons: Vec<_> = reasons.collect();
        (finished.model.bits(), reasons, events)
    };
    for (clip_norm, expected) in
        [(Some(1.0), vec![(0, ReadEachReason::Optimizer)]), (None, Vec::new())]
    {
        let (bits, none, each) = trained(1, clip_norm);
        let (found, reasons, events) = trained(4, clip_norm);
        assert!(found == bits, "{clip_norm:?}");
        assert_eq!((none.len(), reasons), (0, expected));
        assert_same_events(&events, &each, "the same steps");
    }
    let text = ReadEachReason::Optimizer.to_string();
    assert!(text.ends_with("use adamw or sgd"), "{text}");
}
