//! Structured pruning: a narrower network from a trained run, and runs that are refused.

use std::path::Path;

use updraft_run::{Plan, RunError};
use updraft_trainer::Ending;

use crate::plans::read;
use crate::train::{ROWS, Watcher, train};
use crate::whitened::weights;

fn text(model: &str, train: &str) -> String {
    format!(
        "data = {{ height = 16, width = 16, train_images = 240, test_images = 40 }}\n\
         model = {{ {model} }}\n\
         train = {{ epochs = 2, batch = 24, {train} }}\n"
    )
}

fn plan(model: &str, train: &str) -> Plan {
    read(&text(model, train)).expect("valid")
}

fn pruned_from(run: &Path, ratio: f64) -> String {
    format!("pruned_from = \"{}\", prune_ratio = {ratio}", run.display())
}

const WIDE: &str = "kind = \"separable\", channels = 8";
const LAST: &str = "blocks.4.pointwise.conv.weight";

#[test]
fn training_begins_with_the_best_channels_of_a_run_and_resumes_to_the_same_bits() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let wide_plan = plan(WIDE, "learning_rate = 0.01");
    let wide = train(&wide_plan, dir.path(), None, &mut Watcher::default()).folder;

    // A learning rate of next to nothing leaves the channels as they were taken.
    let keys = pruned_from(wide.path(), 0.5);
    let still = plan(&format!("{WIDE}, {keys}"), "learning_rate = 1e-12");
    let taken = train(&still, dir.path(), None, &mut Watcher::default()).folder;
    let (all, kept) = (weights(&wide, &wide_plan, LAST), weights(&taken, &still, LAST));
    assert_eq!((all.len(), kept.len()), (64 * 64, 32 * 32));
    // At the same ratio, training begins with all channels, to learn to round them for example.
    let same_keys = pruned_from(wide.path(), 0.0);
    let same = plan(&format!("{WIDE}, {same_keys}"), "learning_rate = 1e-12");
    let begun = train(&same, dir.path(), None, &mut Watcher::default()).folder;
    let begun = weights(&begun, &same, LAST);
    let is_same = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
    assert!(begun.iter().zip(&all).all(is_same));

    let rounding = "learning_rate = 1e-12, quantization = \"int4\"";
    let rounded = plan(&format!("{WIDE}, {same_keys}"), rounding);
    let rounded_run = train(&rounded, dir.path(), None, &mut Watcher::default()).folder;
    assert!(weights(&rounded_run, &rounded, LAST).iter().zip(&all).all(is_same));

    // Each kept number is one of the wide network's.
    let close = |kept: &f32| all.iter().any(|all| (all - kept).abs() < 1e-6);
    assert!(kept.iter().all(close));

    let plan = plan(&format!("{WIDE}, {keys}"), "learning_rate = 0.01");
    let through = train(&plan, dir.path(), None, &mut Watcher::default()).folder;
    let mut watcher = Watcher { stop_after: Some(7), ..Watcher::default() };
    let stopped = train(&plan, dir.path(), None, &mut watcher).folder;
    // Neither evaluation nor resuming needs the other run.
    std::fs::rename(wide.path(), dir.path().join("moved")).expect("renamed");
    let resumed = train(&plan, dir.path(), Some(stopped), &mut Watcher::default());
    assert_eq!(resumed.ending, Ending::Complete);
    assert_eq!(weights(&resumed.folder, &plan, LAST), weights(&through, &plan, LAST));

    // What was pruned can be pruned again.
    let keys = pruned_from(through.path(), 0.75);
    let again = self::plan(&format!("{WIDE}, {keys}"), "learning_rate = 0.01");
    let again_run = train(&again, dir.path(), None, &mut Watcher::default()).folder;
    assert_eq!(weights(&again_run, &again, LAST).len(), 16 * 16);
}

#[test]
fn runs_that_cannot_be_pruned_to_the_network_are_refused_before_the_training() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let other = |text: &str| {
        let plan = read(text).expect("valid");
        train(&plan, dir.path(), None, &mut Watcher::default()).folder
    };
    let refused = |run: &Path| {
        let plan = plan(&format!("{WIDE}, {}", pruned_from(run, 0.5)), "learning_rate = 0.01");
        let opening = updraft_run::Opening { dir: None, run: None, progress: &mut |_, _| {} };
        match plan.task.open(&plan, opening) {
            Err(error @ RunError::Unusable { .. }) => error.to_string(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a run of another network"),
        }
    };
    let error = refused(other(ROWS).path());
    assert!(error.contains("a run of `tables`; it must be one of `image-class"), "{error}");
    let narrow = text("kind = \"separable\", channels = 4", "learning_rate = 0.01");
    let error = refused(other(&narrow).path());
    let expected = "a run whose `model.channels` is 4; it must be one whose `model.channels` is 8";
    assert!(error.contains(expected), "{error}");
    let rounded = text(WIDE, "learning_rate = 0.01, quantization = \"int8\"");
    let error = refused(other(&rounded).path());
    assert!(error.contains("was trained with `train.quantization`; it must be one"), "{error}");
    let kind = text("kind = \"mobile-net\", width_factor = 0.1", "learning_rate = 0.01");
    let error = refused(other(&kind).path());
    assert!(
        error.contains("a run whose `model.kind` is \"mobile-net\"; it must be one"),
        "{error}"
    );
    let narrower = text(&format!("{WIDE}, prune_ratio = 0.75"), "learning_rate = 0.01");
    let error = refused(other(&narrower).path());
    let expected = "`model.prune_ratio` is 0.75; it must be at most 0.5, as here";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn keys_of_pruning_are_checked() {
    let refused =
        |model: &str| read(&text(model, "learning_rate = 0.01")).expect_err("refused").to_string();
    let error = refused(&format!("{WIDE}, prune_ratio = 1.0"));
    assert!(
        error.contains("`model.prune_ratio` is 1.0; it must be at least 0 and below"),
        "{error}"
    );
    let error = refused("channels = 8, prune_ratio = 0.5");
    assert!(error.contains("model.prune_ratio"), "{error}");
}
