//! Training runs and the files in their folders.

use std::path::Path;
use std::time::Instant;

use burn::tensor::Device;
use updraft_data::Part;
use updraft_device::{Selection, open, probe, select};
use updraft_distributed::{Alone, Shared};
use updraft_precision::Policy;
use updraft_run::{
    AnyWorkload, Beginning, EvaluatedForm, LrSearch, Observer, Opening, Plan, RankEvaluation,
    RunError, RunFolder, RunSchema, StreamUse, TASKS, Trained, Training, VerifyInputs,
    read_metrics,
};
use updraft_trainer::{
    Control, Criterion, Ending, Evaluation, Event, LrRange, Unit, best_checkpoint,
};

use crate::plans::{read, read_with};

/// Rows of a formula with a perceptron, which trains quickly.
pub(crate) const ROWS: &str = "task = \"tables\"\n\
    [data]\nsource = \"formula\"\ntrain_rows = 96\ntest_rows = 20\n\
    [model]\nkind = \"mlp\"\nhidden = [8]\nfrequencies = 0\ndropout = 0.0\n\
    [train]\nepochs = 2\nbatch = 24\n";

/// Counts events, and stops a run after a number of updates.
#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) begun: Option<(String, String, u64)>,
    pub(crate) updates: u64,
    pub(crate) stop_after: Option<u64>,
}

impl Observer for Watcher {
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), RunError> {
        self.begun = Some((beginning.data.clone(), beginning.model.clone(), beginning.step));
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Control {
        self.updates += u64::from(matches!(event, Event::Step(_)));
        if self.stop_after == Some(self.updates) { Control::Stop } else { Control::Continue }
    }
}

/// Evaluates a form of a run's model.
pub(crate) fn evaluated(
    workload: &dyn AnyWorkload,
    (plan, folder): (&Plan, &RunFolder),
    form: EvaluatedForm<'_>,
) -> Result<Option<Evaluation>, RunError> {
    let (device, selection) = &device();
    let collective = &mut Alone;
    let captured = None;
    let evaluation = RankEvaluation { plan, folder, form, device, selection, collective, captured };
    workload.evaluate_on_ranks(evaluation, &mut |_| Control::Continue)
}

pub(crate) fn device() -> (Device, Selection) {
    let selection =
        select(&"flex".parse().expect("a device"), &probe()).expect("it is compiled in");
    (open(&selection).expect("it opens"), selection)
}

pub(crate) fn workload(plan: &Plan, run: Option<&RunFolder>) -> Box<dyn AnyWorkload> {
    let opening = Opening { dir: None, run, progress: &mut |_, _| {} };
    plan.task.open(plan, opening).expect("the data opens")
}

/// Trains a plan, or continues a run of it.
pub(crate) fn train(
    plan: &Plan,
    runs: &Path,
    resumed: Option<RunFolder>,
    watcher: &mut Watcher,
) -> Trained {
    try_train(plan, runs, resumed, watcher).expect("it trains")
}

/// The same, or an error.
pub(crate) fn try_train(
    plan: &Plan,
    runs: &Path,
    resumed: Option<RunFolder>,
    watcher: &mut Watcher,
) -> Result<Trained, RunError> {
    // Runs seed the process's random state.
    let _alone = updraft_testing::alone();
    let (device, selection) = device();
    let workload = workload(plan, resumed.as_ref());
    let training = Training {
        plan,
        device: &device,
        selection: &selection,
        runs,
        resumed,
        collective: Shared::new(Alone),
        trace_steps: None,
        began: (Instant::now(), updraft_device::cpu_seconds()),
    };
    workload.train(training, watcher)
}

#[test]
fn a_run_leaves_its_plan_schema_metrics_and_summary() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read(&format!("{ROWS}[log]\ncsv = true\n")).expect("valid");
    let mut watcher = Watcher::default();
    let trained = train(&plan, dir.path(), None, &mut watcher);
    assert_eq!((trained.ending, watcher.updates), (Ending::Complete, 8));
    let (data, model, step) = watcher.begun.expect("it began");
    assert_eq!(data, "96 training and 20 test rows, 0 categories and 2 numbers to `y`");
    assert_eq!((model.as_str(), step), ("mlp, hidden 8", 0));

    let folder = RunFolder::open(trained.folder.path()).expect("a run");
    assert_eq!(folder.plan(TASKS).expect("its plan").table(), plan.table());
    let schema = RunSchema::read(&folder).expect("its schema");
    assert_eq!((schema.task.as_str(), schema.samples.as_str()), ("tables", "rows"));
    let names: Vec<&str> = schema.metrics.iter().map(|metric| metric.name.as_ref()).collect();
    assert_eq!(names, ["loss", "y-mae", "y-rmse", "y-r-squared"]);
    let unit = Unit::Of("y".into());
    assert_eq!(schema.metric("y-rmse").map(|metric| &metric.unit), Some(&unit));

    let lines = read_metrics(&folder).expect("metrics").lines;
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!((of("step"), of("epoch")), (8, 2));
    let last = lines.iter().rfind(|line| line["event"] == "epoch").expect("an epoch");
    let test = trained.test.expect("a score").value("y-rmse").expect("a value");
    assert_eq!(last["test"]["y-rmse"].as_f64(), Some(test));
    let summary: serde_json::Value = folder.read_json("summary.json").expect("a summary");
    assert_eq!((summary["steps"].as_u64(), summary["complete"].as_bool()), (Some(8), Some(true)));
    for file in ["environment.json", "encoder.json", "steps.csv", "epochs.csv"] {
        assert!(folder.has(file), "{file}");
    }
    // Points, residuals, the importance of both features and the dependence on each.
    assert_eq!(folder.pictures().expect("pictures").len(), 5);
}

/// With a learning rate that moves nothing, both runs have the same splines: their losses differ
/// by the penalty.
#[test]
fn a_penalty_of_splines_is_a_part_of_the_loss_with_its_name() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let text = "task = \"tables\"\n[data]\nsource = \"formula\"\ntrain_rows = 96\n\
                test_rows = 20\n[model]\nkind = \"kan\"\nhidden = [4]\n[train]\nepochs = 1\nbatch = 24\n\
                learning_rate = 1e-20\n";
    let penalty = "model.penalty={ l1 = 0.01, entropy = 0.02, roughness = 0.003, order = 1 }";
    let plain = read(text).expect("valid");
    let penalized = read_with(text, &[penalty]).expect("valid").plan;
    let names = |plan: &Plan| -> Vec<String> {
        plan.task.metrics().iter().map(|metric| metric.name.to_string()).collect()
    };
    assert_eq!(names(&plain), ["loss", "y-mae", "y-rmse", "y-r-squared"]);
    let expected = ["loss", "loss-penalty", "y-mae", "y-rmse", "y-r-squared"];
    assert_eq!(names(&penalized), expected);
    let mut values = Vec::new();
    for plan in [&plain, &penalized] {
        let trained = train(plan, dir.path(), None, &mut Watcher::default());
        let lines = read_metrics(&trained.folder).expect("metrics").lines;
        let epoch = lines.iter().rfind(|line| line["event"] == "epoch").expect("an epoch").clone();
        values.push(epoch);
    }
    for of in ["train", "test"] {
        let number = |run: usize, name: &str| values[run][of][name].as_f64().expect("a number");
        let added = number(1, "loss-penalty");
        assert!(added > 0.01, "{added}");
        let difference = number(1, "loss") - number(0, "loss");
        assert!((difference - added).abs() < 1e-5 * added, "{of}: {difference} and {added}");
        assert!(values[0][of].get("loss-penalty").is_none());
    }
}

#[test]
fn a_penalty_that_does_nothing_or_has_no_splines_is_refused() {
    let refusal = |model: &str| {
        let text = format!("task = \"tables\"\n[model]\n{model}\n");
        read(&text).expect_err(model).to_string()
    };
    for weights in ["l1 = 0.0", "l1 = -1.0, entropy = 1.0", "roughness = inf"] {
        let message = refusal(&format!("kind = \"kan\"\npenalty = {{ {weights} }}"));
        let expected = "each 0 or in the range of f32, 1.2e-38 to 3.4e38, and one above 0";
        assert!(message.contains("`model.penalty`") && message.contains(expected), "{message}");
    }
    let message = refusal("kind = \"mlp\"\npenalty = { l1 = 1.0 }");
    let expected = "`model.penalty` is not read beside `model.kind = \"mlp\"`";
    assert!(message.contains(expected), "{message}");
    let message = refusal("kind = \"kan\"\npenalty = { l2 = 1.0 }");
    assert!(message.contains("unknown key `model.penalty.l2`"), "{message}");
}

#[test]
fn a_stopped_run_continues_to_the_same_score() {
    for precision in ["f32", "bf16-mixed", "f16-mixed"] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = read_with(ROWS, &[&format!("precision={precision}")]).expect("valid").plan;
        let whole = train(&plan, dir.path(), None, &mut Watcher::default());
        let mut stops = Watcher { stop_after: Some(3), ..Watcher::default() };
        let stopped = train(&plan, dir.path(), None, &mut stops);
        assert_eq!(stopped.ending, Ending::Stopped);
        assert!(stopped.test.is_none() && stopped.folder.pictures().expect("none").is_empty());
        let mut watcher = Watcher::default();
        let resumed = train(&plan, dir.path(), Some(stopped.folder), &mut watcher);
        assert_eq!((watcher.updates, watcher.begun.expect("it began").2), (5, 3));
        let score = |trained: &Trained| trained.test.as_ref().expect("a score").value("y-rmse");
        assert_eq!(score(&resumed), score(&whole), "{precision}");
        assert_eq!(read_metrics(&resumed.folder).expect("metrics").lines.len(), 10);
    }
}

#[test]
fn early_stopping_serves_the_best_epoch() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let sets = [
        "data.train_rows=24",
        "data.noise=2.0",
        "model.hidden=[64]",
        "train.epochs=500",
        "train.learning_rate=0.05",
        "train.early_stop={patience=2}",
        "train.keep_best=1",
    ];
    let plan = read_with(ROWS, &sets).expect("valid").plan;
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    assert_eq!(trained.ending, Ending::Early);
    let folder = &trained.folder;
    let lines = read_metrics(folder).expect("metrics").lines;
    let losses = lines.iter().filter_map(|line| line["test"]["loss"].as_f64());
    let best = losses.fold(f64::INFINITY, f64::min);
    let served = folder.served_checkpoint(&plan).expect("a checkpoint");
    assert_ne!(served, folder.newest_checkpoint().expect("a checkpoint"));
    let checkpoints = folder.path().join("checkpoints");
    assert_eq!(Some(served), best_checkpoint(&checkpoints, &Criterion::default()).expect("listed"));

    let (device, _) = device();
    let workload = workload(&plan, Some(folder));
    let poll = &mut |_| Control::Continue;
    let score = workload.evaluate(&plan, folder, &device, poll).expect("scored");
    assert_eq!(score.expect("not stopped").value("loss"), Some(best));
    let stopped = workload.evaluate(&plan, folder, &device, &mut |_| Control::Stop);
    assert!(stopped.expect("stopped").is_none());
}

#[test]
fn a_run_is_scored_on_its_own_data_only() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read(ROWS).expect("valid");
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let other = read_with(ROWS, &["seed=2"]).expect("valid").plan;
    let error = workload(&other, None).check(&trained.folder).expect_err("other rows");
    assert!(matches!(error, RunError::OtherData { .. }), "{error}");
    assert!(error.to_string().contains("other values of `x1`"), "{error}");
    workload(&plan, None).check(&trained.folder).expect("the same rows");
}

#[test]
fn learning_rates_are_tried_and_parts_verified_for_every_task() {
    let scratch = tempfile::tempdir().expect("temporary folder");
    let _alone = updraft_testing::alone();
    let (device, _) = device();
    for kind in TASKS {
        let plan = read_with(kind.trial(), kind.without_dropout()).expect("valid").plan;
        let workload = workload(&plan, None);
        let range = LrRange { steps: 10, ..LrRange::default() };
        let search = LrSearch { range, poll: &mut |_| Control::Continue };
        let points = workload.find_learning_rate(&plan, &device, search).expect("tried");
        assert!(points.is_some_and(|points| !points.is_empty()));
        let times = plan.rehearse(&workload.signature(), &device, 4).expect("rehearsed");
        assert!(times.iter().all(|time| !time.is_zero()));
        let inputs = VerifyInputs {
            plan: &plan,
            with_workers: &[],
            parts: &["EMA", "no part"],
            device: &device,
            scratch: &scratch.path().join(kind.name()),
            is_stopped: &|| false,
        };
        let results = workload.verify(&inputs).expect("not stopped");
        assert!(results[0].passed, "{results:?}");
        assert!(!results[1].passed, "{results:?}");
        let stopped = workload.verify(&VerifyInputs { is_stopped: &|| true, ..inputs });
        assert!(matches!(stopped, Err(RunError::Stopped { .. })));
    }
    let device = Device::flex();
    let training = StreamUse::Training { part: Part::WHOLE, device: &device };
    assert_ne!(training, StreamUse::Reading);
}

#[test]
fn products_of_bf16_change_transformers_and_no_networks_of_burns_layers() {
    let _alone = updraft_testing::alone();
    let (device, _) = device();
    let has_unit = Policy::BF16_PRODUCTS.check_device(&device).is_ok();
    for (task, expected) in [("tables", false), ("masked-images", has_unit)] {
        let kind = TASKS.iter().find(|kind| kind.name() == task).expect("a task");
        let plan = read_with(kind.trial(), &[]).expect("valid").plan;
        assert_eq!(workload(&plan, None).multiplies_bf16(&device), expected, "{task}");
    }
}

#[test]
fn quantizing_splines_of_a_table_is_refused_with_the_reason() {
    let plan = read_with(ROWS, &["model={ kind = \"kan\" }"]).expect("valid").plan;
    let error = plan.quantizer().err().expect("refused");
    assert_eq!(
        error.to_string(),
        "quantize is not for task `tables`: int8 has no splines, and `model.kind` is `kan`"
    );
    assert!(error.is_input());
}

/// Ends the run before its first step.
struct Never;

impl Observer for Never {
    fn begin(&mut self, _: &Beginning<'_>) -> Result<(), RunError> {
        Err(RunError::Stopped { what: "the run began" })
    }

    fn event(&mut self, _: &Event) -> Control {
        Control::Stop
    }
}

#[test]
fn a_resumed_run_removes_what_a_killed_save_left_before_it_writes() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read(ROWS).expect("valid");
    let mut watcher = Watcher { stop_after: Some(3), ..Watcher::default() };
    let stopped = train(&plan, dir.path(), None, &mut watcher);
    let checkpoints = stopped.folder.path().join("checkpoints");
    for name in [".step-00000009.partial", ".step-00000002.deleted"] {
        std::fs::create_dir(checkpoints.join(name)).expect("made");
        std::fs::write(checkpoints.join(name).join("model.bpk"), "half").expect("written");
    }
    let (device, selection) = device();
    let _alone = updraft_testing::alone();
    let training = Training {
        trace_steps: None,
        plan: &plan,
        device: &device,
        selection: &selection,
        runs: dir.path(),
        resumed: Some(stopped.folder),
        collective: Shared::new(Alone),
        began: (Instant::now(), None),
    };
    let ended = workload(&plan, None).train(training, &mut Never);
    assert!(matches!(ended, Err(RunError::Stopped { .. })));
    let left: Vec<_> = checkpoints.read_dir().expect("a folder").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
