//! The files of a run's folder, read by `report` and by what loads a trained model.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use updraft_run::{RunFolder, TASKS, TrainedModel, read_metrics};

use crate::scratch;

/// A finished run of each task, in the order of the registry.
static RUNS: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let run = |task: &&'static dyn updraft_run::TaskKind| {
        let folder = scratch::folder(task.name());
        let config = folder.join("trial.toml");
        fs::write(&config, task.trial()).expect("written");
        let runs = folder.join("runs");
        let arguments = ["updraft", "train"].map(OsString::from).into_iter();
        let arguments = arguments.chain([config.into(), "--runs".into(), runs.clone().into()]);
        let settings = ["--set", "train.epochs=1", "--set", "train.workers=0"];
        assert_eq!(updraft::run(arguments.chain(settings.map(Into::into))), 0, "{}", task.name());
        fs::read_dir(runs).expect("runs").next().expect("one").expect("a folder").path()
    };
    TASKS.iter().map(run).collect()
});

fn run_of(task: &str) -> &'static PathBuf {
    let place = TASKS.iter().position(|kind| kind.name() == task);
    &RUNS[place.expect("a task of the registry")]
}

const IMAGES: &str = "image-classification";

/// Writes a page of a run with other bytes as one of its files.
fn reported(name: &str, bytes: &[u8]) {
    let run = run_of(IMAGES);
    let file = run.join(name);
    let whole = fs::read(&file).ok();
    fs::write(&file, bytes).expect("written");
    let page = run.join("report.html");
    let _ = fs::remove_file(&page);
    let arguments = ["updraft", "report"].map(OsString::from).into_iter();
    let code = updraft::run(arguments.chain([run.into()]));
    assert!(code == 0 || code == 2, "exit code {code}");
    if code == 0 {
        let page = String::from_utf8(scratch::read(&page)).expect("a page in UTF-8");
        assert!(!page.to_ascii_lowercase().contains("<script"));
    }
    match whole {
        Some(whole) => fs::write(&file, whole).expect("written"),
        None => fs::remove_file(&file).expect("removed"),
    }
}

/// Loads a trained model with other bytes as one of its files.
fn loaded(task: &str, name: &str, bytes: &[u8]) {
    let run = run_of(task);
    let file = run.join(name);
    let whole = scratch::read(&file);
    // Other bytes would be refused by their digest before anything else is checked.
    let folder = RunFolder::open(run).expect("a run");
    folder.write_bound(name, bytes).expect("written");
    if let Ok(model) = TrainedModel::load(run, "auto") {
        let table = scratch::file(b"x1,x2,age,group\n0.5,0.5,3,a\n");
        let _ = model.predict(table);
    }
    folder.write_bound(name, &whole).expect("written");
}

fn seed(task: &str, name: &str) -> Vec<Vec<u8>> {
    vec![scratch::read(&run_of(task).join(name))]
}

/// The tasks whose runs have this file.
fn tasks_with(name: &'static str) -> impl Iterator<Item = &'static str> {
    let tasks = TASKS.iter().map(|task| task.name());
    tasks.filter(move |task| run_of(task).join(name).is_file())
}

pub(super) fn metrics(bytes: &[u8]) {
    reported("metrics.jsonl", bytes);
    let folder = RunFolder::open(run_of(IMAGES)).expect("a run");
    let _ = read_metrics(&folder);
}

pub(super) fn metrics_seeds() -> Vec<Vec<u8>> {
    seed(IMAGES, "metrics.jsonl")
}

pub(super) fn quant(bytes: &[u8]) {
    reported("quant.json", bytes);
}

pub(super) fn quant_seeds() -> Vec<Vec<u8>> {
    let run = run_of(IMAGES).clone();
    let arguments = ["updraft", "quantize"].map(OsString::from).into_iter();
    assert_eq!(updraft::run(arguments.chain([run.into()])), 0);
    seed(IMAGES, "quant.json")
}

pub(super) fn run(bytes: &[u8]) {
    reported("run.json", bytes);
}

pub(super) fn run_seeds() -> Vec<Vec<u8>> {
    seed(IMAGES, "run.json")
}

pub(super) fn pictures(bytes: &[u8]) {
    reported("pictures.json", bytes);
}

pub(super) fn pictures_seeds() -> Vec<Vec<u8>> {
    tasks_with("pictures.json").flat_map(|task| seed(task, "pictures.json")).collect()
}

pub(super) fn summary(bytes: &[u8]) {
    reported("summary.json", bytes);
}

pub(super) fn summary_seeds() -> Vec<Vec<u8>> {
    seed(IMAGES, "summary.json")
}

pub(super) fn encoder(bytes: &[u8]) {
    for task in tasks_with("encoder.json") {
        loaded(task, "encoder.json", bytes);
    }
}

pub(super) fn encoder_seeds() -> Vec<Vec<u8>> {
    tasks_with("encoder.json").flat_map(|task| seed(task, "encoder.json")).collect()
}

pub(super) fn targets(bytes: &[u8]) {
    for task in tasks_with("targets.json") {
        loaded(task, "targets.json", bytes);
    }
}

pub(super) fn targets_seeds() -> Vec<Vec<u8>> {
    tasks_with("targets.json").flat_map(|task| seed(task, "targets.json")).collect()
}

pub(super) fn classes(bytes: &[u8]) {
    loaded(IMAGES, "classes.json", bytes);
}

pub(super) fn classes_seeds() -> Vec<Vec<u8>> {
    seed(IMAGES, "classes.json")
}

pub(super) fn images(bytes: &[u8]) {
    loaded("image-to-image", "images.json", bytes);
}

pub(super) fn images_seeds() -> Vec<Vec<u8>> {
    seed("image-to-image", "images.json")
}
