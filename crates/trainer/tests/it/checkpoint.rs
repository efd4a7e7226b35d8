//! Checkpoints are complete or absent, and anything else is refused.

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Bytes, DType, Device};
use updraft_testing::alone;
use updraft_trainer::{
    CheckpointError, Control, Event, Keep, OptimizerConfig, Run, RunData, TrainError,
    check_checkpoint, checkpoint_contents, list_checkpoints, load_checkpoint, load_model,
    prune_checkpoints,
};

use crate::small::{Classifier, loader, new_run, optimizer, settings, task};

/// One trained epoch and its checkpoint.
fn checkpoint(folder: &Path) -> (Classifier, PathBuf) {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let data = loader(1);
    let finished = new_run(&device)
        .train(
            &task(),
            &settings(folder, 1),
            RunData { train: &data, test: None },
            &device,
            &mut |_, _| Control::Continue,
        )
        .unwrap();
    (finished.model, finished.checkpoint)
}

fn resume(path: &Path) -> Result<(), CheckpointError> {
    // A new model seeds the process's random state.
    let _alone = alone();
    let device = Device::flex().autodiff();
    match Run::resume(path, Classifier::new(&device), optimizer().init()) {
        Ok(_) => Ok(()),
        Err(TrainError::Checkpoint { cause }) => Err(cause),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_model_comes_back_with_its_running_statistics() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (model, path) = checkpoint(folder.path());
    let device = Device::flex().autodiff();
    let loaded = load_model(&path, Classifier::new(&device)).unwrap();
    assert!(loaded.bits() == model.bits());
    assert!(loaded.bits() != Classifier::new(&device).bits());
}

#[test]
fn one_changed_byte_in_any_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = checkpoint(folder.path());
    resume(&path).unwrap();
    assert_eq!(check_checkpoint(&path).unwrap().step, 6);
    let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.filter(|name| name != "manifest.json").collect();
    assert_eq!(names.len(), 4, "{names:?}");
    for name in names {
        // For other programs: a run that is resumed does not read it.
        let is_resumed = name != "model.safetensors";
        let file = path.join(name);
        let whole = fs::read(&file).unwrap();
        let mut changed = whole.clone();
        changed[whole.len() / 2] ^= 1;
        for bytes in [changed, whole[..whole.len() - 1].to_vec(), Vec::new()] {
            fs::write(&file, bytes).unwrap();
            let resumed = is_resumed.then(|| resume(&path).unwrap_err());
            for error in resumed.into_iter().chain(check_checkpoint(&path).err()) {
                assert!(
                    matches!(&error, CheckpointError::Damaged { path, .. } if *path == file),
                    "{error}"
                );
            }
            check_checkpoint(&path).unwrap_err();
        }
        fs::remove_file(&file).unwrap();
        let error = check_checkpoint(&path).unwrap_err();
        assert!(matches!(&error, CheckpointError::Io { path, .. } if *path == file), "{error}");
        fs::write(&file, whole).unwrap();
    }
    resume(&path).unwrap();
}

#[test]
fn an_unfinished_a_newer_and_a_garbled_checkpoint_have_different_errors() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = checkpoint(folder.path());
    let manifest = path.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"version\": 4", "\"version\": 5")).unwrap();
    let error = resume(&path).unwrap_err();
    assert!(matches!(error, CheckpointError::Version { found: 5, expected: 4, .. }), "{error}");
    fs::write(&manifest, "{").unwrap();
    assert!(matches!(resume(&path).unwrap_err(), CheckpointError::Json { .. }));
    fs::remove_file(&manifest).unwrap();
    assert!(matches!(resume(&path).unwrap_err(), CheckpointError::NoManifest { .. }));
    assert_eq!(list_checkpoints(folder.path()).unwrap().len(), 0);
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = checkpoint(folder.path());
    let other: Linear = LinearConfig::new(3, 2).init(&Device::flex());
    let parameters = other.num_params();
    let error = load_model(&path, other).unwrap_err();
    assert!(matches!(error, CheckpointError::Record { .. }), "{error}");
    assert_eq!(parameters, 8);
}

#[test]
fn what_a_killed_save_left_is_neither_listed_nor_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let partial = folder.path().join(".step-00000006.partial");
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join("model.bpk"), "half").unwrap();
    assert_eq!(list_checkpoints(folder.path()).unwrap(), Vec::<PathBuf>::new());
    let (_, path) = checkpoint(folder.path());
    assert_eq!(list_checkpoints(folder.path()).unwrap(), [path]);
    assert!(!partial.exists());
}

#[test]
fn pruning_keeps_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    for step in [9, 10, 100] {
        let path = folder.path().join(format!("step-{step:08}"));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("manifest.json"), "{}").unwrap();
    }
    let keep = Keep { last: 2, best: Vec::new() };
    prune_checkpoints(folder.path(), &keep).unwrap();
    let left = list_checkpoints(folder.path()).unwrap();
    let names: Vec<_> = left.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["step-00000010", "step-00000100"]);
    assert!(list_checkpoints(&folder.path().join("nowhere")).unwrap().is_empty());
}

#[test]
fn a_checkpoint_whose_replacement_was_killed_is_still_there() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = checkpoint(folder.path());
    let name = path.file_name().unwrap().to_str().unwrap();
    let replaced = folder.path().join(format!(".{name}.replaced"));
    fs::rename(&path, &replaced).unwrap();
    assert_eq!(list_checkpoints(folder.path()).unwrap(), std::slice::from_ref(&replaced));
    resume(&replaced).unwrap();
    // With the new one in place, the old one no longer counts.
    let (_, path) = checkpoint(folder.path());
    assert_eq!(list_checkpoints(folder.path()).unwrap(), [path]);
}

#[test]
fn what_a_killed_deletion_left_is_no_checkpoint_and_goes_with_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let deleted = folder.path().join(".step-00000003.deleted");
    fs::create_dir_all(&deleted).unwrap();
    fs::write(deleted.join("manifest.json"), "{}").unwrap();
    assert_eq!(list_checkpoints(folder.path()).unwrap(), Vec::<PathBuf>::new());
    checkpoint(folder.path());
    assert!(!deleted.exists());
}

/// An optimizer's file whose state belongs to another model, or that another optimizer reads, has
/// the right hash and still cannot be resumed from.
#[test]
fn optimizer_state_that_does_not_come_back_is_named_by_its_parameter() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = checkpoint(folder.path());
    let other = OptimizerConfig::Sgd { momentum: 0.9, weight_decay: 0.0, norm_bias_factor: 1.0 };
    let error = load_checkpoint(&path, Classifier::new(&device), other.init()).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, CheckpointError::OptimizerState { .. }), "{message}");
    assert!(message.contains("conv.") && message.contains("was not restored"), "{message}");

    // The model of another run: the same paths, other ids, and a manifest that says it is right.
    let elsewhere = tempfile::tempdir().unwrap();
    let (_, foreign) = checkpoint(elsewhere.path());
    fs::copy(foreign.join("model.bpk"), path.join("model.bpk")).unwrap();
    let read = |path: &Path| fs::read_to_string(path.join("manifest.json")).unwrap();
    let hash = |text: &str| -> String {
        let manifest: serde_json::Value = serde_json::from_str(text).unwrap();
        let files = manifest["files"].as_array().unwrap().iter();
        let model = files.into_iter().find(|file| file["name"] == "model.bpk").unwrap();
        model["sha256"].as_str().unwrap().to_owned()
    };
    let (ours, theirs) = (read(&path), read(&foreign));
    fs::write(path.join("manifest.json"), ours.replace(&hash(&ours), &hash(&theirs))).unwrap();
    let error = resume(&path).unwrap_err();
    assert!(error.to_string().contains("belongs to no parameter"), "{error}");
}

/// Writes other bytes as a file of a checkpoint, with their hash in its manifest.
fn replace(path: &Path, name: &str, bytes: &[u8]) {
    use sha2::{Digest, Sha256};

    let manifest = path.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut changed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let files = changed["files"].as_array_mut().unwrap();
    let file = files.iter_mut().find(|file| file["name"] == name).unwrap();
    let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    file["sha256"] = hash.into();
    fs::write(manifest, changed.to_string()).unwrap();
    fs::write(path.join(name), bytes).unwrap();
}

/// A burnpack with the tensors of another, each with a type and an id of its own.
fn repacked(
    bytes: Vec<u8>,
    change: impl Fn(&str, DType, Option<u64>) -> (DType, Option<u64>),
) -> Vec<u8> {
    let reader = burn_pack::Reader::from_bytes(Bytes::from_bytes_vec(bytes)).unwrap();
    let (metadata, scalars) = (reader.metadata().clone(), reader.scalars().clone());
    let tensors = reader.into_tensors().unwrap().into_iter().map(|tensor| {
        let (name, dtype, shape, id, bytes) = tensor.into_parts().unwrap();
        let (dtype, id) = change(&name, dtype, id);
        burn_pack::Tensor::new(name, dtype, shape, id, bytes)
    });
    let mut writer = burn_pack::Writer::new(tensors.collect());
    for (key, value) in &metadata {
        writer = writer.with_metadata(key, value);
    }
    for (key, value) in scalars {
        writer = writer.with_scalar(&key, value);
    }
    writer.into_bytes().unwrap().to_vec()
}

#[test]
fn a_tensor_of_integers_in_the_place_of_weights_is_named_before_anything_computes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = checkpoint(folder.path());
    let model = fs::read(path.join("model.bpk")).unwrap();
    let of_integers = repacked(model, |name, dtype, id| {
        (if name == "output.weight" { DType::I32 } else { dtype }, id)
    });
    replace(&path, "model.bpk", &of_integers);
    let message = resume(&path).unwrap_err().to_string();
    let expected = "`output.weight` is of type I32; the model's is of floating point";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn an_optimizer_s_tensor_without_a_parameter_is_named() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = checkpoint(folder.path());
    let optimizer = fs::read(path.join("optimizer.bpk")).unwrap();
    replace(&path, "optimizer.bpk", &repacked(optimizer, |_, dtype, _| (dtype, None)));
    let error = resume(&path).unwrap_err();
    assert!(matches!(error, CheckpointError::OptimizerState { .. }), "{error}");
    assert!(error.to_string().contains("belongs to no parameter of the model"), "{error}");
}

#[test]
fn a_manifest_that_names_a_file_elsewhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = checkpoint(folder.path());
    let manifest = path.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    for name in ["/dev/zero", "../model.bpk", "", "..", "a/b"] {
        fs::write(&manifest, text.replace("model.safetensors", name)).unwrap();
        let error = check_checkpoint(&path).unwrap_err();
        assert!(matches!(error, CheckpointError::Json { .. }), "{name}: {error}");
        assert!(error.to_string().contains("is no file of its folder"), "{name}: {error}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_instead_of_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path) = checkpoint(folder.path());
    let file = path.join("model.bpk");
    fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    let message = resume(&path).unwrap_err().to_string();
    assert!(message.contains("model.bpk`: it is not a regular file"), "{message}");
}

#[test]
fn parts_of_two_runs_are_equal_where_their_bits_are_whatever_their_ids() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = folders.each_ref().map(|folder| checkpoint(folder.path()).1);
    let parts = checkpoint_contents(&one).unwrap();
    assert_eq!(parts, checkpoint_contents(&other).unwrap());
    for name in
        ["state.json", "model.bpk conv.weight", "optimizer.bpk conv.weight momentum.moment_1"]
    {
        let found = parts.keys().any(|part| part.starts_with(name));
        assert!(found, "`{name}` is missing: {:?}", parts.keys());
    }
    let model = fs::read(other.join("model.bpk")).unwrap();
    let mut changed = model.clone();
    *changed.last_mut().unwrap() ^= 1;
    replace(&other, "model.bpk", &changed);
    let changed = checkpoint_contents(&other).unwrap();
    let names: Vec<_> = parts.iter().filter(|(name, hash)| changed[*name] != **hash).collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_run_whose_folder_was_removed_ends_with_the_reason() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    let device = Device::flex().autodiff();
    let data = loader(1);
    let data = RunData { train: &data, test: None };
    let error = new_run(&device)
        .train(&task(), &settings(&checkpoints, 2), data, &device, &mut |event, _| {
            if matches!(event, Event::Saved { .. }) {
                fs::remove_dir_all(&checkpoints).unwrap();
            }
            Control::Continue
        })
        .unwrap_err();
    let cause = "is no longer there: the run's folder was moved or removed while it trained";
    assert!(error.to_string().contains(cause), "{error}");
    assert!(!checkpoints.exists());
}

/// A layer that was frozen has no moments to continue with; one that is frozen still needs none.
#[test]
fn a_parameter_that_is_trained_and_has_no_state_is_refused_by_its_path() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let frozen = || Classifier::new(&device).with_frozen_convolution();
    let data = loader(1);
    let data = RunData { train: &data, test: None };
    let path = Run::new(frozen(), optimizer().init())
        .train(&task(), &settings(folder.path(), 1), data, &device, &mut |_, _| Control::Continue)
        .unwrap()
        .checkpoint;
    load_checkpoint(&path, frozen(), optimizer().init()).unwrap();
    let error = resume(&path).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, CheckpointError::OptimizerState { .. }), "{message}");
    assert!(message.contains("`conv.weight` is trained and has no state here"), "{message}");
    check_checkpoint(&path).unwrap();
}

/// Plain gradient descent keeps nothing of any parameter, and has all it needs.
#[test]
fn an_optimizer_without_state_is_resumed() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let plain =
        || OptimizerConfig::Sgd { momentum: 0.0, weight_decay: 0.0, norm_bias_factor: 1.0 }.init();
    let data = loader(1);
    let data = RunData { train: &data, test: None };
    let path = Run::new(Classifier::new(&device), plain())
        .train(&task(), &settings(folder.path(), 1), data, &device, &mut |_, _| Control::Continue)
        .unwrap()
        .checkpoint;
    load_checkpoint(&path, Classifier::new(&device), plain()).unwrap();
    let error = resume(&path).unwrap_err();
    assert!(matches!(error, CheckpointError::OptimizerState { .. }), "{error}");
}

#[test]
fn an_old_checkpoint_that_is_damaged_is_left_alone_and_ends_no_run() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("step-00000001");
    fs::create_dir_all(&damaged).unwrap();
    for file in ["manifest.json", "state.json"] {
        fs::write(damaged.join(file), "{").unwrap();
    }
    let device = Device::flex().autodiff();
    let data = loader(1);
    let mut settings = settings(folder.path(), 3);
    (settings.checkpoints.keep_last, settings.checkpoints.keep_best) = (1, 1);
    settings.criterion = "train-loss".parse().unwrap();
    let data = RunData { train: &data, test: None };
    let run = new_run(&device);
    run.train(&task(), &settings, data, &device, &mut |_, _| Control::Continue).unwrap();
    let left = list_checkpoints(folder.path()).unwrap();
    assert_eq!(left[0], damaged);
    assert!((2..=3).contains(&left.len()), "the best and the last beside it: {left:?}");
}
