//! The network behind a whitening convolution, with every setting of its recipe.

use std::path::Path;

use safetensors::SafeTensors;
use updraft_data::Views;
use updraft_run::{EvaluatedForm, Plan, RunError, RunFolder, VerifyInputs};
use updraft_trainer::{Control, Ending, list_checkpoints};

use crate::plans::read;
use crate::train::{ROWS, Watcher, device, evaluated, train, workload};

const RECIPE: &str = "data = { height = 16, width = 16, train_images = 96, test_images = 20 }\n\
    model = { kind = \"whitened\", widths = [4, 6, 6] }\n\
    augment = { alternating_flip = true, translate = 2 }\n\
    [train]\nepochs = 2\nbatch = 24\nlabel_smoothing = 0.2\nlearning_rate = 0.5\n\
    schedule = { kind = \"triangular\", warmup = 0.23, start = 0.2, floor = 0.07 }\n\
    optimizer = { kind = \"sgd\", momentum = 0.85, weight_decay = 0.0013, norm_bias_factor = 64 }\n\
    lookahead = { every = 2, decay = 0.77, power = 3 }\n\
    freeze = [{ parameters = \"whitening.bias\", after_epochs = 1 }]\n";

/// The numbers of a tensor in the exported weights of a run.
pub(crate) fn weights(folder: &RunFolder, plan: &Plan, name: &str) -> Vec<f32> {
    stored(&folder.served_checkpoint(plan).expect("a checkpoint"), name)
}

/// The same of a checkpoint.
fn stored(checkpoint: &Path, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(checkpoint.join("model.safetensors")).expect("readable");
    let stored = SafeTensors::deserialize(&bytes).expect("safetensors");
    let tensor = stored.tensor(name).expect("a tensor of this name");
    tensor.data().as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

fn trained(plan: &Plan, dir: &Path, stop_after: Option<u64>) -> RunFolder {
    let mut watcher = Watcher { stop_after, ..Watcher::default() };
    train(plan, dir, None, &mut watcher).folder
}

#[test]
fn the_recipe_trains_behind_filters_of_its_data_and_resumes_to_the_same_bits() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read(RECIPE).expect("valid");
    let whole = trained(&plan, dir.path(), None);
    let filters = weights(&whole, &plan, "whitening.weight");
    let (positive, negative) = filters.split_at(12 * 12);
    assert!(positive.iter().zip(negative).all(|(left, right)| *left == -right), "{filters:?}");
    let norm = weights(&whole, &plan, "stages.0.first_norm.gamma");
    assert_eq!(norm, [1.0; 4]);

    let stopped = trained(&plan, dir.path(), Some(3));
    let resumed = train(&plan, dir.path(), Some(stopped), &mut Watcher::default());
    assert_eq!(resumed.ending, Ending::Complete);
    for name in ["whitening.bias", "stages.2.second.weight", "stages.1.first_norm.beta"] {
        assert_eq!(weights(&resumed.folder, &plan, name), weights(&whole, &plan, name), "{name}");
    }
}

#[test]
fn a_verification_begins_with_the_filters_of_the_data() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read(RECIPE).expect("valid");
    let run = trained(&plan, dir.path(), None);
    let scratch = dir.path().join("scratch");
    let inputs = VerifyInputs {
        plan: &plan,
        with_workers: &[],
        parts: &["EMA", "resume"],
        device: &device().0,
        scratch: &scratch,
        is_stopped: &|| false,
    };
    let results = workload(&plan, None).verify(&inputs).expect("not stopped");
    assert!(results.iter().all(|result| result.passed), "{results:?}");
    // Training does not change them.
    let filters = weights(&run, &plan, "whitening.weight");
    for part in ["ema", "whole"] {
        let checkpoints = list_checkpoints(&scratch.join(part).join("checkpoints"));
        let newest = checkpoints.expect("a folder").pop().expect("a checkpoint");
        assert_eq!(stored(&newest, "whitening.weight"), filters, "{part}");
    }
}

#[test]
fn a_run_is_scored_plainly_and_by_several_views() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read(RECIPE).expect("valid");
    let folder = trained(&plan, dir.path(), None);
    let (workload, (device, _)) = (workload(&plan, Some(&folder)), device());
    let poll = &mut |_| Control::Continue;
    let plain = workload.evaluate(&plan, &folder, &device, poll);
    let plain = plain.expect("scored").expect("not stopped");
    let mut losses = vec![plain.loss()];
    for views in [Views::Flip, Views::FlipTranslate] {
        let form = EvaluatedForm::Averaged(views);
        let score = evaluated(&*workload, (&plan, &folder), form);
        let score = score.expect("scored").expect("not stopped");
        assert_eq!(score.samples, plain.samples);
        assert!(!losses.contains(&score.loss()), "{views}: {losses:?}");
        losses.push(score.loss());
    }
    let tables = read(ROWS).expect("valid");
    let folder = trained(&tables, dir.path(), None);
    let workload = crate::train::workload(&tables, Some(&folder));
    let form = EvaluatedForm::Averaged(Views::Flip);
    let error = evaluated(&*workload, (&tables, &folder), form).expect_err("refused");
    assert!(matches!(error, RunError::NotForTask { .. }), "{error}");
}

#[test]
fn frozen_parameters_that_the_model_does_not_have_are_refused_before_a_folder_is_created() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read(&RECIPE.replace("whitening.bias", "whitening.biases")).expect("valid");
    let (device, selection) = device();
    let training = updraft_run::Training {
        plan: &plan,
        device: &device,
        selection: &selection,
        runs: dir.path(),
        resumed: None,
        collective: updraft_distributed::Shared::new(updraft_distributed::Alone),
        trace_steps: None,
        began: (std::time::Instant::now(), None),
    };
    let error = workload(&plan, None).train(training, &mut Watcher::default());
    let message = error.expect_err("refused").to_string();
    assert!(message.starts_with("`train.freeze.parameters` is \"whitening.biases\""), "{message}");
    assert_eq!(dir.path().read_dir().expect("a folder").count(), 0);
}
