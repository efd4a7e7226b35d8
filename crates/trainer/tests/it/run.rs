//! A whole training loop: it learns, reports events in order, stops when asked and resumes exactly.

use std::sync::Arc;

use burn::tensor::Device;
use updraft_data::{
    Cue, DataError, FaultPolicy, GeneratedConfig, GeneratedImages, Image, ImageSource, Loader,
    LoaderConfig, decode,
};
use updraft_precision::{DynamicScale, LossScale, Policy};
use updraft_testing::{alone, autodiff_devices};
use updraft_trainer::{
    Activity, Control, EmaConfig, Ending, Event, Finished, Run, RunData, RunSettings, TrainError,
    Transfer, list_checkpoints,
};

use crate::small::{Classifier, Classify, loader, new_run, optimizer, settings, task};

/// The task of the small classifier, whose norm computes in f32.
pub(crate) fn casting() -> Classify<'static, Classifier> {
    Classify { cast_norms: &["norm"], ..task() }
}

/// Trains to the end, or to the step given, and collects the events.
pub(crate) fn train(
    run: Run<Classifier>,
    settings: &RunSettings,
    device: &Device,
    stop_after: Option<u64>,
) -> (Finished<Classifier>, Vec<Event>) {
    let (data, test) = (loader(1), loader(2));
    let mut events = Vec::new();
    let finished = run
        .train(
            &casting(),
            settings,
            RunData { train: &data, test: Some(&test) },
            device,
            &mut |event, _| {
                events.push(event.clone());
                match event {
                    Event::Step(report) if Some(report.step + 1) == stop_after => Control::Stop,
                    _ => Control::Continue,
                }
            },
        )
        .unwrap();
    (finished, events)
}

/// Steps and epochs without what a clock measured.
fn timeless(events: &[Event]) -> Vec<serde_json::Value> {
    let values = events.iter().filter(|event| matches!(event, Event::Step(_) | Event::Epoch(_)));
    let values = values.map(|event| {
        let mut value = serde_json::to_value(event).unwrap();
        let fields = value.as_object_mut().unwrap();
        fields.retain(|name, _| !(name.ends_with("_us") || name.ends_with("_per_s")));
        value
    });
    values.collect()
}

#[test]
fn a_run_learns_and_reports_events_in_order() {
    let _alone = alone();
    for device in autodiff_devices() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path(), 12);
        let (finished, events) = train(new_run(&device), &settings, &device, None);
        assert_eq!((finished.steps, finished.ending), (72, Ending::Complete));
        let accuracy = finished.test.unwrap().value("accuracy").unwrap();
        assert!(accuracy > 0.5, "a guess scores 0.25, this {accuracy}");
        let names: Vec<&str> = events
            .iter()
            .map(|event| match event {
                Event::Step(_) => "step",
                Event::Epoch(_) => "epoch",
                Event::Saving { .. } => "saving",
                Event::Saved { .. } => "saved",
                Event::Between { activity: Activity::Scoring, .. } => "scoring",
                _ => "other",
            })
            .take(15)
            .collect();
        assert_eq!(names[..6], ["step"; 6]);
        assert_eq!(names[6..12], ["scoring"; 6]);
        assert_eq!(names[12..], ["epoch", "saving", "saved"]);
        // Only the two newest checkpoints are kept.
        assert_eq!(list_checkpoints(folder.path()).unwrap().len(), 2);
    }
}

#[test]
fn a_run_stopped_at_any_step_resumes_to_the_same_bits() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let (whole, events) = train(new_run(&device), &settings(folder.path(), 2), &device, None);
    let expected = timeless(&events);
    for stop in 1..12 {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path(), 2);
        let (stopped, before) = train(new_run(&device), &settings, &device, Some(stop));
        assert_eq!((stopped.steps, stopped.ending), (stop, Ending::Stopped));
        // A process of its own would hold other weights and other random state.
        let other = Classifier::new(&device);
        device.seed(99);
        let run = Run::resume(&stopped.checkpoint, other, optimizer().init()).unwrap();
        let (resumed, after) = train(run, &settings, &device, None);
        assert!(resumed.model.bits() == whole.model.bits(), "other weights after {stop}");
        assert_eq!([timeless(&before), timeless(&after)].concat(), expected, "after {stop}");
    }
}

#[test]
fn an_aborted_run_neither_writes_nor_deletes_in_the_folder_of_checkpoints() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), 3);
    let (data, test) = (loader(1), loader(2));
    let data = RunData { train: &data, test: Some(&test) };
    let of_another = folder.path().join(".step-00000099.partial");
    let mut watch = |event: &Event, _: &Classifier| match event {
        // A request to stop that comes only now.
        Event::Saving { step: 6 } => Control::Stop,
        Event::Saving { .. } => {
            std::fs::create_dir(&of_another).unwrap();
            Control::Abort
        }
        _ => Control::Continue,
    };
    let ended = new_run(&device).train(&casting(), &settings, data, &device, &mut watch);
    let error = ended.unwrap_err();
    assert!(matches!(error, TrainError::Aborted { step: 12 }), "{error}");
    assert!(of_another.exists());
    let saved = list_checkpoints(folder.path()).unwrap();
    assert_eq!(saved, [folder.path().join("step-00000006")]);
}

#[test]
fn a_batch_moved_ahead_changes_no_bit_and_a_stopped_run_takes_it_again() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    for accumulate in [1, 4] {
        let trained = |transfer, stop| {
            let folder = tempfile::tempdir().unwrap();
            let settings = RunSettings { accumulate, transfer, ..settings(folder.path(), 2) };
            let (finished, events) = train(new_run(&device), &settings, &device, stop);
            if stop.is_none() {
                return (finished.model.bits(), timeless(&events));
            }
            let run =
                Run::resume(&finished.checkpoint, Classifier::new(&device), optimizer().init());
            let (resumed, after) = train(run.unwrap(), &settings, &device, None);
            (resumed.model.bits(), [timeless(&events), timeless(&after)].concat())
        };
        let expected = trained(Transfer::WhenUsed, None);
        for stop in [None, Some(1), Some(2)] {
            assert!(trained(Transfer::Ahead, stop) == expected, "{accumulate} {stop:?}");
        }
    }
}

#[test]
fn a_checkpoint_every_few_steps_lies_between_those_of_the_epochs() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 2);
    settings.checkpoints.every_steps = Some(4);
    let (_, events) = train(new_run(&device), &settings, &device, None);
    let saved = events.iter().filter_map(|event| match event {
        Event::Saved { step, .. } => Some(*step),
        _ => None,
    });
    assert_eq!(saved.collect::<Vec<_>>(), [4, 6, 8, 12]);
}

#[test]
fn a_diverging_run_stops_with_the_step_and_keeps_its_checkpoints() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 1);
    train(new_run(&device), &settings, &device, None);
    settings.epochs = 3;
    settings.learning_rate = 1e30;
    let newest = list_checkpoints(folder.path()).unwrap().pop().unwrap();
    let run = Run::resume(&newest, Classifier::new(&device), optimizer().init()).unwrap();
    let data = loader(1);
    let error = run
        .train(&task(), &settings, RunData { train: &data, test: None }, &device, &mut |_, _| {
            Control::Continue
        })
        .unwrap_err();
    let is_expected = matches!(error, TrainError::NonFiniteLoss { step, .. } | TrainError::Gradient { step, .. } if step >= 6);
    assert!(is_expected, "{error}");
    assert_eq!(list_checkpoints(folder.path()).unwrap(), [newest]);
}

#[test]
fn settings_out_of_range_are_named_before_anything_is_done() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let good = settings(folder.path(), 1);
    let change = |change: fn(&mut RunSettings)| {
        let mut settings = good.clone();
        change(&mut settings);
        settings
    };
    let cases = [
        (change(|s| s.epochs = 0), "`epochs` is 0; it must be at least 1"),
        (change(|s| s.learning_rate = f64::NAN), "`learning_rate` is NaN"),
        (change(|s| s.learning_rate = 1e-39), "`learning_rate` is 0.000000"),
        (change(|s| s.step.clip_norm = Some(0.0)), "`step.clip_norm` is 0"),
        (change(|s| s.accumulate = 0), "`accumulate` is 0"),
        (change(|s| s.ema = Some(EmaConfig { decay: 1.0 })), "`ema.decay` is 1"),
        (change(|s| s.checkpoints.keep_last = 0), "`checkpoints.keep_last` is 0"),
        (change(|s| s.checkpoints.every_steps = Some(0)), "`checkpoints.every_steps` is 0"),
    ];
    for (settings, message) in cases {
        let data = loader(1);
        let error = new_run(&device)
            .train(
                &task(),
                &settings,
                RunData { train: &data, test: None },
                &device,
                &mut |_, _| Control::Continue,
            )
            .unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(list_checkpoints(folder.path()).unwrap().len(), 0);
    }
}

/// f16 with a scale that grows until it overflows, again and again.
fn scaled(folder: &std::path::Path, epochs: u64) -> RunSettings {
    let mut settings = settings(folder, epochs);
    settings.step.policy = Policy::F16_MIXED;
    settings.loss_scale = LossScale::Dynamic(DynamicScale {
        initial: 2.0_f64.powi(40),
        ceiling: 2.0_f64.powi(40),
        // Not a power of two: a checkpoint has to keep every bit of the scale.
        backoff: 0.013,
        growth: 3.7,
        interval: 5,
        ..DynamicScale::default()
    });
    settings
}

fn new_f16_run(device: &Device) -> Run<Classifier> {
    Run::new(Policy::F16_MIXED.autocast(Classifier::new(device)), optimizer().init())
}

#[test]
fn a_run_in_f16_learns_in_spite_of_the_steps_that_overflow() {
    let _alone = alone();
    for device in autodiff_devices() {
        let folder = tempfile::tempdir().unwrap();
        let (finished, events) =
            train(new_f16_run(&device), &scaled(folder.path(), 20), &device, None);
        let steps = events.iter().filter_map(|event| match event {
            Event::Step(report) => Some(report),
            _ => None,
        });
        let (skipped, made): (Vec<_>, Vec<_>) = steps.partition(|step| step.skipped.is_some());
        assert!(skipped.len() > 5 && made.len() > 30, "{} and {}", skipped.len(), made.len());
        assert!(skipped[0].skipped.as_ref().unwrap().contains("loss scale of 1099511627776"));
        assert_eq!(skipped[0].loss_scale, Some(2.0_f64.powi(40)));
        let losses = events.iter().filter_map(|event| match event {
            Event::Epoch(report) => Some(report.train.loss()),
            _ => None,
        });
        let losses: Vec<f64> = losses.collect();
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        assert_eq!(finished.ending, Ending::Complete);
        assert!(last < 0.75 * first, "{first} to {last}");
    }
}

#[test]
fn a_scaled_run_stopped_at_any_step_resumes_to_the_same_bits() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let (whole, events) = train(new_f16_run(&device), &scaled(folder.path(), 2), &device, None);
    for stop_after in [1, 4, 6, 11] {
        let folder = tempfile::tempdir().unwrap();
        let settings = scaled(folder.path(), 2);
        let (stopped, before) = train(new_f16_run(&device), &settings, &device, Some(stop_after));
        let model = Policy::F16_MIXED.autocast(Classifier::new(&device));
        let run = Run::resume(&stopped.checkpoint, model, optimizer().init()).unwrap();
        let (resumed, after) = train(run, &settings, &device, None);
        assert!(resumed.model.bits() == whole.model.bits(), "stopped after {stop_after}");
        let reports: Vec<_> = timeless(&before).into_iter().chain(timeless(&after)).collect();
        assert_eq!(reports, timeless(&events), "stopped after {stop_after}");
    }
}

#[test]
fn a_scale_that_a_checkpoint_did_not_have_is_refused() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = scaled(folder.path(), 2);
    let (stopped, _) = train(new_f16_run(&device), &settings, &device, Some(3));
    settings.loss_scale = LossScale::Static { scale: 8.0 };
    let model = Policy::F16_MIXED.autocast(Classifier::new(&device));
    let run = Run::resume(&stopped.checkpoint, model, optimizer().init()).unwrap();
    let data = loader(1);
    let data = RunData { train: &data, test: None };
    let ended = run.train(&casting(), &settings, data, &device, &mut |_, _| Control::Continue);
    let error = ended.unwrap_err();
    assert!(matches!(error, TrainError::Precision { .. }), "{error}");
    settings.loss_scale = LossScale::None;
    assert!(matches!(settings.validate(), Err(TrainError::Precision { .. })));
}

#[test]
fn a_normalization_that_does_not_cast_is_named_before_the_first_step() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let data = loader(1);
    let data = RunData { train: &data, test: None };
    let settings = scaled(folder.path(), 2);
    let mut events = 0;
    let ended = new_f16_run(&device).train(&task(), &settings, data, &device, &mut |_, _| {
        events += 1;
        Control::Continue
    });
    let error = ended.unwrap_err();
    assert!(matches!(error, TrainError::Precision { .. }), "{error}");
    assert!(error.to_string().contains("`norm` is a BatchNorm"), "{error}");
    assert_eq!(events, 0);
}

/// Generated images, of which some cannot be read.
struct Torn(GeneratedImages);

impl ImageSource for Torn {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn classes(&self) -> &[String] {
        self.0.classes()
    }

    fn label(&self, index: usize) -> usize {
        self.0.label(index)
    }

    fn name(&self, index: usize) -> String {
        self.0.name(index)
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        match index % 16 {
            3 => decode(&[], &self.name(index)),
            _ => self.0.read(index),
        }
    }

    fn fingerprint(&self) -> String {
        self.0.fingerprint()
    }
}

#[test]
fn an_epoch_reports_how_many_samples_were_left_out() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let images = GeneratedConfig::new(Cue::Color, 48).with_size(16, 16);
    let images = Arc::new(Torn(GeneratedImages::try_new(images).unwrap()));
    let config = LoaderConfig::new(8).with_faults(FaultPolicy::Skip { at_most: 3 });
    let data = Loader::try_new(images, config).unwrap();
    let data = RunData { train: &data, test: None };
    let mut settings = settings(folder.path(), 2);
    settings.criterion = "train-loss".parse().unwrap();
    let mut left_out = Vec::new();
    let ended = new_run(&device).train(&task(), &settings, data, &device, &mut |event, _| {
        if let Event::Epoch(report) = event {
            left_out.push(report.left_out);
        }
        Control::Continue
    });
    ended.unwrap();
    assert_eq!(left_out, [3, 3]);
}
