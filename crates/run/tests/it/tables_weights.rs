//! Weights of the losses of several targets that follow the norms of their gradients.

use std::time::{Duration, Instant};

use updraft_distributed::{Shared, Threads};
use updraft_run::{RunFolder, Trained, Training, read_metrics};
use updraft_trainer::Ending;

use crate::any_run::contents;
use crate::plans::read_with;
use crate::tables::{MIXED, mixed, rows};
use crate::train::{Watcher, device, train, workload};

/// The weights after each epoch, by target.
fn weights(folder: &RunFolder) -> Vec<Vec<f64>> {
    let lines = read_metrics(folder).expect("metrics").lines;
    let epochs = lines.iter().filter(|line| line["event"] == "epoch");
    let of = |line: &serde_json::Value| {
        let weights = line["target_weights"].as_object().expect("weights");
        weights.values().map(|weight| weight.as_f64().expect("a number")).collect()
    };
    epochs.map(of).collect()
}

fn loss(trained: &Trained) -> Option<f64> {
    trained.test.as_ref().expect("a score").value("loss")
}

#[test]
fn weights_by_gradient_norm_move_and_a_resumed_run_has_their_bits() {
    for sets in [
        vec!["train.gradient_norm_every=2"],
        vec!["train.gradient_norm_every=3", "train.read_every=2", "train.accumulate=2"],
        vec!["train.ema_decay=0.9", "model.kind=residual"],
        vec!["precision=bf16-mixed", "train.gradient_norm_rate=0.5"],
        vec!["model={kind = \"kan\", hidden = 4}", "data.scaling=standard"],
    ] {
        let sets = [&["train.target_weights=gradient-norm", "train.epochs=3"], &*sets].concat();
        let (dir, plan) = mixed(&sets, &rows(40, 1000));
        let whole = train(&plan, dir.path(), None, &mut Watcher::default());
        let found = weights(&whole.folder);
        assert_eq!(found.len(), 3, "{sets:?}");
        for weights in &found {
            assert_eq!(weights.len(), 4, "{sets:?}");
            assert!(weights.iter().all(|weight| *weight > 0.0), "{sets:?} {weights:?}");
            let mean = weights.iter().sum::<f64>() / 4.0;
            assert!((mean - 1.0).abs() < 1e-5, "{sets:?} {weights:?}");
        }
        assert!(found[0] != found[2], "{sets:?} {found:?}");
        let mut stops = Watcher { stop_after: Some(4), ..Watcher::default() };
        let stopped = train(&plan, dir.path(), None, &mut stops);
        assert_eq!(stopped.ending, Ending::Stopped, "{sets:?}");
        let resumed = train(&plan, dir.path(), Some(stopped.folder), &mut Watcher::default());
        assert_eq!(contents(&resumed.folder), contents(&whole.folder), "{sets:?}");
        assert!(contents(&whole.folder).keys().any(|name| name.contains("balance.weights")));
        assert_eq!(weights(&resumed.folder), found, "{sets:?}");
        assert_eq!(loss(&resumed), loss(&whole), "{sets:?}");
    }
}

#[test]
fn numbers_that_are_read_late_do_not_change_the_weights() {
    let [one, other] = ["train.read_every=1", "train.read_every=3"].map(|read| {
        let (dir, plan) = mixed(&["train.target_weights=gradient-norm", read], &rows(40, 1000));
        let trained = train(&plan, dir.path(), None, &mut Watcher::default());
        (contents(&trained.folder), weights(&trained.folder))
    });
    assert_eq!(one.1, other.1);
    let differing: Vec<_> = one.0.iter().filter(|(name, part)| other.0[*name] != **part).collect();
    assert!(differing.is_empty(), "{differing:?}");
}

/// The loss is the sum of the parts, each with the fixed and with the balanced weight.
#[test]
fn a_fixed_weight_multiplies_the_balanced_one() {
    let sets = ["train.target_weights=gradient-norm", "targets.tags.weight=3"];
    let (dir, plan) = mixed(&sets, &rows(40, 1000));
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let score = trained.test.as_ref().expect("a score");
    let weights = weights(&trained.folder).pop().expect("an epoch");
    // In the order of their names.
    let parts = ["loss-grade", "loss-price", "loss-sold", "loss-tags"];
    let parts = parts.map(|part| score.value(part).expect("defined"));
    let fixed = [1.0, 1.0, 1.0, 3.0];
    let sum: f64 = (0..4).map(|at| parts[at] * weights[at] * fixed[at]).sum();
    let total = loss(&trained).expect("defined");
    assert!((total - sum).abs() < 1e-5 * sum, "{total} of {parts:?}, {weights:?}");
}

#[test]
fn balanced_weights_need_several_targets_and_shared_layers() {
    let one =
        MIXED.replace("sold = {", "# {").replace("grade = {", "# {").replace("tags = {", "# {");
    let balanced = "train.target_weights=gradient-norm";
    for (text, sets, expected) in [
        (&*one, vec![balanced], "there is no other gradient to balance"),
        (MIXED, vec![balanced, "model={hidden = []}"], "network without hidden layers"),
        (
            MIXED,
            vec![balanced, "model={kind = \"kan\", hidden = []}", "data.scaling=standard"],
            "network without hidden layers",
        ),
        (MIXED, vec!["train.gradient_norm_pull=1"], "`train.gradient_norm_pull` is not read"),
        (MIXED, vec![balanced, "train.gradient_norm_pull=-1"], "a finite number of at least 0"),
        (MIXED, vec![balanced, "train.gradient_norm_rate=1.5"], "above 0 and at most 1"),
        (MIXED, vec![balanced, "train.gradient_norm_every=0"], "at least 1"),
    ] {
        let error = read_with(text, &sets).map(drop).expect_err("refused").to_string();
        assert!(error.contains(expected), "{sets:?}: {error}");
    }
    assert!(read_with(MIXED, &[balanced]).is_ok());
}

#[test]
fn balanced_weights_are_refused_on_several_ranks() {
    let plan = |sets: &[&str]| read_with(MIXED, sets).expect("valid").plan;
    let key = plan(&["train.target_weights=gradient-norm"]).task.needs_single_rank();
    assert_eq!(key.map(|setting| setting.key), Some("train.target_weights"));
    assert_eq!(plan(&["train.target_weights=uncertainty"]).task.needs_single_rank(), None);
    let (_data, plan) = mixed(&["train.target_weights=gradient-norm"], &rows(40, 1000));
    let runs = tempfile::tempdir().expect("temporary folder");
    let (device, selection) = device();
    for engine in Threads::group(2, Duration::from_secs(10)) {
        let training = Training {
            plan: &plan,
            device: &device,
            selection: &selection,
            runs: runs.path(),
            resumed: None,
            collective: Shared::new(engine),
            trace_steps: None,
            began: (Instant::now(), None),
        };
        let trained = workload(&plan, None).train(training, &mut Watcher::default());
        let error = trained.map(drop).expect_err("refused").to_string();
        assert!(error.starts_with("`train.target_weights` needs a single rank"), "{error}");
    }
    assert!(std::fs::read_dir(runs.path()).expect("a folder").next().is_none(), "a run began");
}
