//! The model that a run serves: averaged, with recomputed batch norms, the best of all epochs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::tensor::Device;
use updraft_testing::alone;
use updraft_trainer::{
    Activity, BatchNormStatistics, CheckpointSettings, Control, Criterion, EarlyStop, EmaConfig,
    Ending, Evaluation, Event, Finished, Lookahead, Plateau, Run, RunData, RunSettings, Schedule,
    best_checkpoint, checkpoint_step, list_checkpoints, load_model, metric_specs,
};

use crate::small::{Classifier, epochs, loader, new_run, optimizer, settings, task};

/// All that keeps state between steps, switched on.
fn rich(folder: &Path, epochs: u64) -> RunSettings {
    let mut settings = settings(folder, epochs);
    settings.ema = Some(EmaConfig { decay: 0.9 });
    settings.lookahead = Some(Lookahead { every: 2, decay: 0.7, power: 1.0 });
    settings.batch_norm = BatchNormStatistics::Recomputed { batches: 3 };
    settings.accumulate = 2;
    settings.plateau = Some(Plateau { factor: 0.5, patience: 0, ..Plateau::default() });
    settings.checkpoints.keep_best = 1;
    settings
}

fn train(
    run: Run<Classifier>,
    settings: &RunSettings,
    stop: &dyn Fn(&Event) -> bool,
) -> (Finished<Classifier>, Vec<Event>) {
    let device = Device::flex().autodiff();
    let (data, test) = (loader(1), loader(2));
    let mut events = Vec::new();
    let finished = run.train(
        &task(),
        settings,
        RunData { train: &data, test: Some(&test) },
        &device,
        &mut |event, _| {
            events.push(event.clone());
            if stop(event) { Control::Stop } else { Control::Continue }
        },
    );
    (finished.unwrap(), events)
}

fn never(_: &Event) -> bool {
    false
}

/// The bytes of every file of a checkpoint that holds no random ids.
fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: &str| (name.to_owned(), fs::read(path.join(name)).unwrap());
    ["state.json", "model.safetensors"].map(read).into()
}

#[test]
fn a_run_with_everything_on_resumes_to_the_same_bits_wherever_it_was_stopped() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let (whole, events) = train(new_run(&device), &rich(folder.path(), 3), &never);
    let expected = contents(&whole.checkpoint);
    assert_eq!(whole.steps, 9, "two batches an update");
    let rates = |events: &[Event]| -> Vec<f64> {
        let rates = events.iter().filter_map(|event| match event {
            Event::Step(report) => Some(report.learning_rate),
            _ => None,
        });
        rates.collect()
    };
    let is_between = |event: &Event, wanted: Activity| matches!(event, Event::Between { activity, epoch: 1, .. } if *activity == wanted);
    let stops: [&dyn Fn(&Event) -> bool; 5] = [
        &|event| matches!(event, Event::Step(report) if report.step == 1),
        &|event| matches!(event, Event::Step(report) if report.step == 5),
        &|event| is_between(event, Activity::Recomputing),
        &|event| is_between(event, Activity::Scoring),
        &|event| matches!(event, Event::Epoch(report) if report.epoch == 1),
    ];
    for (index, stop) in stops.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let settings = rich(folder.path(), 3);
        let (stopped, before) = train(new_run(&device), &settings, stop);
        assert_eq!(stopped.ending, Ending::Stopped, "stop {index}");
        let other = Classifier::new(&device);
        device.seed(99);
        let newest = list_checkpoints(folder.path()).unwrap().pop().unwrap();
        let run = Run::resume(&newest, other, optimizer().init()).unwrap();
        let (resumed, after) = train(run, &settings, &never);
        assert!(resumed.model.bits() == whole.model.bits(), "other weights, stop {index}");
        assert!(contents(&resumed.checkpoint) == expected, "another checkpoint, stop {index}");
        assert_eq!(resumed.test, whole.test);
        assert_eq!([rates(&before), rates(&after)].concat(), rates(&events), "stop {index}");
    }
}

#[test]
fn the_checkpoint_serves_what_was_scored() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let (finished, events) = train(new_run(&device), &rich(folder.path(), 2), &never);
    let loaded = load_model(&finished.checkpoint, Classifier::new(&device)).unwrap();
    assert!(loaded.bits() == finished.served.bits());
    assert!(loaded.bits() != finished.model.bits(), "the live model was served");
    let test = loader(2);
    let plain = Device::flex();
    let loaded = burn::module::Module::valid(&loaded);
    let policy = updraft_precision::Policy::F32;
    let score = updraft_trainer::evaluate(&task(), &loaded, &test, &plain, policy, &mut |_| {
        Control::Continue
    });
    assert_eq!(score.unwrap().map(|score| score.evaluation), finished.test);
    let last = events.iter().rev().find_map(|event| match event {
        Event::Epoch(report) => report.test.clone(),
        _ => None,
    });
    assert_eq!(last, finished.test);
}

#[test]
fn the_safetensors_file_holds_the_served_weights() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let (finished, _) = train(new_run(&device), &rich(folder.path(), 1), &never);
    let bytes = fs::read(finished.checkpoint.join("model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut names = file.names();
    names.sort_unstable();
    let expected = [
        "conv.bias",
        "conv.weight",
        "norm.beta",
        "norm.gamma",
        "norm.running_mean",
        "norm.running_var",
        "output.bias",
        "output.weight",
    ];
    assert_eq!(names, expected);
    let mut found: Vec<u32> = Vec::new();
    for name in ["conv.weight", "conv.bias", "norm.gamma", "norm.beta"] {
        let (words, _) = file.tensor(name).unwrap().data().as_chunks::<4>();
        found.extend(words.iter().map(|word| u32::from_le_bytes(*word)));
    }
    assert_eq!(found[..], finished.served.bits()[..found.len()]);
}

#[test]
fn early_stopping_ends_the_run_and_gives_back_the_best_epoch() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 40);
    settings.checkpoints.keep_last = 1;
    settings.early_stop = Some(EarlyStop { metric: None, patience: 2, least_gain: 0.0 });
    settings.criterion = Criterion::default();
    // So high that the loss soon rises.
    settings.learning_rate = 0.05;
    let (finished, events) = train(new_run(&device), &settings, &never);
    assert_eq!(finished.ending, Ending::Early);
    let tested = epochs(&events).into_iter().filter_map(|report| report.test.as_ref());
    let losses: Vec<f64> = tested.map(Evaluation::loss).collect();
    assert!(losses.len() < 40);
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(losses.len() - 1 - losses.iter().position(|loss| *loss == best).unwrap(), 2);
    assert_eq!(finished.test.as_ref().unwrap().loss(), best);
    let loaded = load_model(&finished.checkpoint, Classifier::new(&device)).unwrap();
    assert!(loaded.bits() == finished.served.bits());
    assert!(loaded.bits() != finished.model.bits());
    // The newest, and the best beside it.
    let left = list_checkpoints(folder.path()).unwrap();
    assert_eq!(left.len(), 2);
    assert_eq!(left[0], finished.checkpoint);
    // Resumed, it is over at once, with the same answer.
    let run = Run::resume(&left[1], Classifier::new(&device), optimizer().init()).unwrap();
    let (again, events) = train(run, &settings, &never);
    assert_eq!((again.ending, again.test, events), (Ending::Early, finished.test, Vec::new()));
}

#[test]
fn early_stopping_gives_back_the_best_epoch_of_a_run_that_ends_before_its_patience() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 12);
    settings.early_stop = Some(EarlyStop { metric: None, patience: 12, least_gain: 0.0 });
    settings.criterion = Criterion::default();
    settings.learning_rate = 0.05;
    settings.schedule = Schedule::Constant;
    let (finished, events) = train(new_run(&device), &settings, &never);
    assert_eq!(finished.ending, Ending::Complete);
    let tested = epochs(&events).into_iter().filter_map(|report| report.test.as_ref());
    let losses: Vec<f64> = tested.map(Evaluation::loss).collect();
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(best < losses[11], "the last epoch is not the best: {losses:?}");
    assert_eq!(finished.test.as_ref().unwrap().loss(), best);
    let loaded = load_model(&finished.checkpoint, Classifier::new(&device)).unwrap();
    assert!(loaded.bits() == finished.served.bits());
    // Resumed, it is over at once, with the same answer.
    let newest = list_checkpoints(folder.path()).unwrap().pop().unwrap();
    let run = Run::resume(&newest, Classifier::new(&device), optimizer().init()).unwrap();
    let (again, events) = train(run, &settings, &never);
    assert_eq!((again.ending, again.test, events), (Ending::Complete, finished.test, Vec::new()));
}

/// Early stopping by the test loss, the best checkpoints by the training accuracy, the learning rate
/// by the test accuracy, and a criterion that is none of them.
#[test]
fn each_decision_that_compares_epochs_has_a_metric_of_its_own() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 40);
    settings.learning_rate = 0.05;
    settings.schedule = Schedule::Constant;
    settings.criterion = "train-loss".parse().unwrap();
    settings.checkpoints = CheckpointSettings {
        keep_last: 1,
        keep_best: 2,
        best_metric: Some("train-accuracy".parse().unwrap()),
        ..settings.checkpoints
    };
    let metric: Criterion = "test-loss".parse().unwrap();
    settings.early_stop =
        Some(EarlyStop { metric: Some(metric.clone()), patience: 2, least_gain: 0.0 });
    settings.plateau = Some(Plateau {
        metric: Some("test-accuracy".parse().unwrap()),
        factor: 0.5,
        patience: 0,
        threshold: 0.1,
        floor: 0.0,
    });
    let (finished, events) = train(new_run(&device), &settings, &never);
    assert_eq!(finished.ending, Ending::Early);
    let epochs = epochs(&events);
    let values = |metric: &str| -> Vec<f64> {
        let metric: Criterion = metric.parse().unwrap();
        epochs.iter().map(|report| metric.value(report).unwrap()).collect()
    };
    // Of two equal epochs the earlier one.
    let ranked = |values: &[f64], sign: f64| {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| (sign * values[*a]).total_cmp(&(sign * values[*b])));
        order
    };
    let test_loss = values("test-loss");
    let served = ranked(&test_loss, 1.0)[0];
    assert_eq!(test_loss.len() - 1 - served, 2);
    assert_eq!(finished.test.as_ref().unwrap().loss(), test_loss[served]);

    let mut kept = ranked(&values("train-accuracy"), -1.0)[..2].to_vec();
    kept.extend([served, epochs.len() - 1]);
    kept.sort_unstable();
    kept.dedup();
    let left = list_checkpoints(folder.path()).unwrap();
    let steps: Vec<_> = left.iter().map(|path| checkpoint_step(path).unwrap()).collect();
    let per_epoch = finished.steps / epochs.len() as u64;
    let expected: Vec<_> = kept.iter().map(|epoch| (*epoch as u64 + 1) * per_epoch).collect();
    assert_eq!(steps, expected);
    assert!(kept.len() > 2, "the metrics disagree: {kept:?}");
    assert_eq!(best_checkpoint(folder.path(), &metric).unwrap(), Some(finished.checkpoint));

    let mut reductions = vec![0];
    let (mut best, mut count) = (f64::NEG_INFINITY, 0);
    for accuracy in values("test-accuracy") {
        match accuracy > best + 0.1 {
            true => best = accuracy,
            false => count += 1,
        }
        reductions.push(count);
    }
    for event in &events {
        let Event::Step(report) = event else { continue };
        let epoch = (report.step / per_epoch) as usize;
        let rate = 0.05 * 0.5f64.powi(reductions[epoch]);
        assert!((report.learning_rate / rate - 1.0).abs() < 1e-6, "step {}", report.step);
    }
    assert!(count > 0);
}

#[test]
fn a_metric_that_the_task_lacks_is_refused_by_its_setting() {
    let metrics = metric_specs(&task());
    let mut settings = settings(Path::new("nowhere"), 1);
    let unknown: Option<Criterion> = Some("test-dice".parse().unwrap());
    settings.plateau = Some(Plateau { metric: unknown.clone(), ..Plateau::default() });
    let refused = |settings: &RunSettings, setting: &str| {
        let error = settings.check_criterion(&metrics, true).unwrap_err().to_string();
        let said = format!("`{setting}` is `test-dice`; it must be one of `test-loss`");
        assert!(error.starts_with(&said), "{error}");
    };
    refused(&settings, "plateau.metric");
    settings.plateau = None;
    settings.early_stop = Some(EarlyStop { metric: unknown.clone(), patience: 1, least_gain: 0.0 });
    refused(&settings, "early_stop.metric");
    settings.early_stop = None;
    settings.checkpoints.best_metric = unknown;
    refused(&settings, "checkpoints.best_metric");
}

#[test]
fn comparing_epochs_by_test_data_needs_some() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), 1);
    settings.checkpoints.keep_best = 1;
    let data = loader(1);
    let error = new_run(&device)
        .train(&task(), &settings, RunData { train: &data, test: None }, &device, &mut |_, _| {
            Control::Continue
        })
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`criterion` is `test-accuracy`, and there is no test data; it must be a metric of the \
         training data"
    );
}

#[test]
fn updates_that_are_read_together_train_average_and_resume_to_the_same_bits() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let every = |folder: &Path, read_every: u64| {
        let mut settings = rich(folder, 3);
        settings.step.clip_norm = None;
        RunSettings { read_every, ..settings }
    };
    let folder = tempfile::tempdir().unwrap();
    let (whole, _) = train(new_run(&device), &every(folder.path(), 1), &never);
    let expected = contents(&whole.checkpoint);
    for (read_every, stop, stops) in [(2, 0, 2), (2, 5, 6), (5, 1, 3), (5, 3, 6)] {
        let folder = tempfile::tempdir().unwrap();
        let settings = every(folder.path(), read_every);
        let is_stop = |event: &Event| matches!(event, Event::Step(it) if it.step == stop);
        let (stopped, _) = train(new_run(&device), &settings, &is_stop);
        // At the end of the group, or of the epoch of three updates.
        assert_eq!(stopped.steps, stops, "{read_every}, {stop}");
        let run = Run::resume(&stopped.checkpoint, Classifier::new(&device), optimizer().init());
        let (resumed, _) = train(run.unwrap(), &settings, &never);
        assert!(resumed.model.bits() == whole.model.bits(), "{read_every}, {stop}");
        assert!(contents(&resumed.checkpoint) == expected, "{read_every}, {stop}");
    }
}
