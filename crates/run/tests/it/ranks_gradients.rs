//! The gradients of an update on several ranks, parameter by parameter.

use std::collections::BTreeMap;
use std::fs;

use safetensors::SafeTensors;
use updraft_run::RunFolder;

use crate::ranks::{Differs, IMAGES, SYNCHRONIZED, on_ranks_in, plan, stopped};
use crate::train::ROWS;

/// The parameters after an update on so many ranks, by path.
fn parameters_on_ranks(
    stopped: &RunFolder,
    text: &str,
    sets: &[&str],
    size: usize,
) -> BTreeMap<String, Vec<f64>> {
    let runs = tempfile::tempdir().expect("temporary folder");
    let ranks = on_ranks_in(runs.path(), stopped, text, &vec![sets; size], Differs::Nothing);
    let first = ranks.into_iter().map(|rank| rank.expect("it trains")).next();
    newest_parameters(&first.expect("rank 0").0.folder)
}

/// The trained numbers of the newest checkpoint, by path.
fn newest_parameters(folder: &RunFolder) -> BTreeMap<String, Vec<f64>> {
    let checkpoint = folder.newest_checkpoint().expect("a checkpoint");
    let bytes = fs::read(checkpoint.join("model.safetensors")).expect("weights");
    let stored = SafeTensors::deserialize(&bytes).expect("safetensors");
    let trained = stored.iter().filter(|(name, _)| !name.contains("running_"));
    let floats = |bytes: &[u8]| {
        let floats = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes).into());
        floats.collect()
    };
    trained.map(|(name, tensor)| (name.to_owned(), floats(tensor.data()))).collect()
}

#[test]
fn each_gradient_of_an_update_is_that_of_one_rank() {
    // In an update a parameter changes by its gradient times a rate that is so large that the
    // rounding of the parameter does not count.
    const RATE: f64 = 1024.0;
    let dir = tempfile::tempdir().expect("temporary folder");
    let common = [
        "train.epochs=1",
        "train.batch=60",
        "train.schedule.kind=constant",
        "train.optimizer={kind=\"sgd\",momentum=0.0}",
    ];
    for (name, text, sets) in [
        ("no batch norm", ROWS, &["model.hidden=[16,16]", "data.train_rows=120"][..]),
        ("synchronized batch norms", IMAGES, &[SYNCHRONIZED, "data.train_images=120"]),
    ] {
        let with = |rate: &'static str| [sets, &common, &[rate]].concat();
        // Before the first update some gradients of batch norms are zero: their biases are.
        let before = stopped(&plan(text, &with("train.learning_rate=0.1")), dir.path());
        let start = newest_parameters(&before);
        let gradients = |size: usize| -> BTreeMap<String, Vec<f64>> {
            let set = with("train.learning_rate=1024");
            let after = parameters_on_ranks(&before, text, &set, size);
            let each = after.into_iter().map(|(path, after)| {
                let pairs = start[&path].iter().zip(after);
                (path, pairs.map(|(before, after)| (before - after) / RATE).collect())
            });
            each.collect()
        };
        let largest = |numbers: &[f64]| numbers.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let alone = gradients(1);
        // The scale of a batch norm before a depthwise convolution and another batch norm changes
        // almost nothing, so that its gradient is a difference of large numbers: relative to a layer.
        let of_layer = |path: &str| {
            let layer = path.rsplit_once('.').map_or(path, |(layer, _)| layer);
            let same = alone.iter().filter(|(other, _)| other.starts_with(layer));
            same.fold(0.0_f64, |most, (_, gradient)| most.max(largest(gradient)))
        };
        assert!(alone.len() >= 6, "{name}: {:?}", alone.keys());
        for size in [2, 3, 4] {
            let mut farthest = (0.0, String::new());
            for (path, gradient) in gradients(size) {
                let pairs = gradient.iter().zip(&alone[&path]);
                let difference: Vec<f64> = pairs.map(|(ours, one)| ours - one).collect();
                let far = largest(&difference) / of_layer(&path);
                if far > farthest.0 {
                    farthest = (far, path);
                }
            }
            let (far, path) = farthest;
            assert!(far > 0.0 && far <= 1e-5, "{name}: `{path}` of {size} ranks differs by {far}");
        }
    }
}
