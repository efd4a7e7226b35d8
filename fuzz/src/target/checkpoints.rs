//! The files of a checkpoint, each with a manifest that has its hash.

use std::fs;
use std::path::PathBuf;

use burn::nn::{Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use serde_json::Value;
use sha2::{Digest, Sha256};
use updraft_trainer::{
    Criterion, Keep, OptimizerConfig, Run, RunState, Snapshot, best_checkpoint, check_checkpoint,
    list_checkpoints, load_model, prune_checkpoints, save_checkpoint,
};

use crate::scratch;

const OPTIMIZER: OptimizerConfig =
    OptimizerConfig::Adamw { weight_decay: 0.01, betas: [0.9, 0.999] };

/// A folder with one checkpoint, after one update, and a model to restore it into.
struct Saved {
    folder: PathBuf,
    checkpoint: PathBuf,
    model: Linear,
}

thread_local! {
    // The target runs on one thread, and a module is not made to be shared.
    static SAVED: &'static Saved = Box::leak(Box::new(Saved::new()));
}

fn saved() -> &'static Saved {
    SAVED.with(|saved| *saved)
}

impl Saved {
    fn new() -> Self {
        let device = Device::flex().autodiff();
        let fresh: Linear = LinearConfig::new(3, 2).init(&device);
        let loss = fresh.forward(Tensor::<2>::ones([4, 3], &device)).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &fresh);
        let mut optimizer = OPTIMIZER.init();
        let model = optimizer.step(0.1, fresh, gradients);
        let folder = scratch::folder("checkpoints");
        let state = RunState::default();
        let snapshot = Snapshot {
            model: &model,
            optimizer: &optimizer,
            state: &state,
            average: Some(&model),
            served: None,
            slow: None,
        };
        let checkpoint = save_checkpoint(&folder, &snapshot).expect("saved");
        Self { folder, checkpoint, model }
    }
}

/// The checkpoint with other bytes as one of its files, and the hash of those in the manifest.
fn with(name: &str, bytes: &[u8]) {
    let saved = saved();
    let path = saved.checkpoint.join("manifest.json");
    let manifest = scratch::read(&path);
    let whole = scratch::read(&saved.checkpoint.join(name));
    let mut changed: Value = serde_json::from_slice(&manifest).expect("a manifest");
    let files = changed["files"].as_array_mut().expect("a list");
    let entry = files.iter_mut().find(|entry| entry["name"] == name).expect("an entry");
    let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    entry["sha256"] = Value::String(hash);
    fs::write(&path, changed.to_string()).expect("written");
    fs::write(saved.checkpoint.join(name), bytes).expect("written");
    read_all(saved);
    fs::write(&path, manifest).expect("written");
    fs::write(saved.checkpoint.join(name), whole).expect("written");
}

fn read_all(saved: &Saved) {
    let _ = check_checkpoint(&saved.checkpoint);
    let metric = Criterion::default();
    let _ = best_checkpoint(&saved.folder, &metric);
    let _ = prune_checkpoints(&saved.folder, &Keep { last: 1, best: vec![(metric, 1)] });
    let _ = load_model(&saved.checkpoint, saved.model.clone());
    let resumed = Run::resume(&saved.checkpoint, saved.model.clone(), OPTIMIZER.init());
    // What resumes can be saved again.
    if resumed.is_ok() {
        assert_eq!(list_checkpoints(&saved.folder).expect("listed").len(), 1);
    }
}

fn seed(name: &str) -> Vec<Vec<u8>> {
    vec![scratch::read(&saved().checkpoint.join(name))]
}

pub(super) fn manifest(bytes: &[u8]) {
    let path = saved().checkpoint.join("manifest.json");
    let whole = scratch::read(&path);
    fs::write(&path, bytes).expect("written");
    read_all(saved());
    fs::write(&path, whole).expect("written");
}

pub(super) fn manifest_seeds() -> Vec<Vec<u8>> {
    seed("manifest.json")
}

pub(super) fn state(bytes: &[u8]) {
    with("state.json", bytes);
}

pub(super) fn state_seeds() -> Vec<Vec<u8>> {
    seed("state.json")
}

pub(super) fn model(bytes: &[u8]) {
    with("model.bpk", bytes);
}

pub(super) fn average(bytes: &[u8]) {
    with("average.bpk", bytes);
}

pub(super) fn model_seeds() -> Vec<Vec<u8>> {
    seed("model.bpk")
}

pub(super) fn optimizer(bytes: &[u8]) {
    with("optimizer.bpk", bytes);
}

pub(super) fn optimizer_seeds() -> Vec<Vec<u8>> {
    seed("optimizer.bpk")
}
