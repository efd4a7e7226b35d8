//! The gradients of the first update: those of one rank, for any number of ranks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use updraft_trainer::list_checkpoints;

use crate::processes::{finished, mpirun_of, run_of, updraft};

const TABLE: &str = "task = \"tables\"\n[data]\nsource = \"formula\"\ntrain_rows = 60\n\
    test_rows = 20\n[model]\nkind = \"mlp\"\nhidden = [16, 16]\ndropout = 0.0\n[train]\nbatch = 60\n";

const IMAGES: &str = "[data]\nheight = 16\nwidth = 16\ntrain_images = 48\ntest_images = 24\n\
    [model]\nkind = \"separable\"\n[train]\nbatch = 48\n\
    distributed = { batch_norm = \"synchronized\" }\n";

/// Added to both: one update, in which each parameter changes by its gradient times a factor.
const ONE_UPDATE: &str = "epochs = 1\nschedule = { kind = \"constant\" }\n\
    optimizer = { kind = \"sgd\", momentum = 0.0 }\n";

/// Large, so that the rounding of the parameters does not count.
const FACTOR: f64 = 1024.0;

/// The largest difference from one rank, relative to the largest gradient of the same layer: the
/// gradient of a scale before a depthwise convolution and a batch norm is almost zero.
const MOST: f64 = 1e-5;

/// A network without batch norms, and one with synchronized ones.
pub(crate) fn of_one_rank() {
    for (name, text) in [("a table", TABLE), ("images, synchronized", IMAGES)] {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.toml");
        fs::write(&config, format!("{text}{ONE_UPDATE}")).unwrap();
        let config = config.to_str().unwrap();
        let updated = |ranks: usize, factor: f64| {
            let runs = folder.path().join(format!("{ranks}-{factor:e}"));
            let rate = format!("train.learning_rate={factor:e}");
            let words = ["train", config, "--set", &rate, "--runs", runs.to_str().unwrap()];
            let child = match ranks {
                1 => updraft(&words),
                _ => mpirun_of(ranks, &words),
            };
            finished(child);
            parameters(&runs)
        };
        let before = updated(1, 1e-30);
        let gradients = |ranks: usize| -> BTreeMap<String, Vec<f64>> {
            let after = updated(ranks, FACTOR);
            assert_eq!(after.len(), before.len());
            let each = after.into_iter().map(|(path, after)| {
                let pairs = before[&path].iter().zip(after);
                (path, pairs.map(|(before, after)| (before - after) / FACTOR).collect())
            });
            each.collect()
        };
        let largest = |numbers: &[f64]| numbers.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let alone = gradients(1);
        let of_layer = |path: &str| {
            let layer = path.rsplit_once('.').map_or(path, |(layer, _)| layer);
            let same = alone.iter().filter(|(other, _)| other.starts_with(layer));
            same.fold(0.0_f64, |most, (_, gradient)| most.max(largest(gradient)))
        };
        for ranks in [2, 3, 4] {
            let mut farthest = (0.0, String::new());
            for (path, gradient) in gradients(ranks) {
                let pairs = gradient.iter().zip(&alone[&path]);
                let difference: Vec<f64> = pairs.map(|(ours, one)| ours - one).collect();
                let far = largest(&difference) / of_layer(&path);
                assert!(far < MOST, "{name}: `{path}` of {ranks} ranks differs by {far}");
                if far > farthest.0 {
                    farthest = (far, path);
                }
            }
            // Ranks round differently, so that a run of one rank by mistake would show.
            let (far, path) = farthest;
            assert!(far > 0.0, "{name}: {ranks} ranks");
            println!("{name}: the first gradients of {ranks} ranks: `{path}` differs by {far:.1e}");
        }
    }
}

/// Every parameter of the newest checkpoint by path, without running statistics.
fn parameters(runs: &Path) -> BTreeMap<String, Vec<f64>> {
    let run = run_of(runs).unwrap();
    let newest = list_checkpoints(&run.join("checkpoints")).unwrap().pop().unwrap();
    let bytes = fs::read(newest.join("model.safetensors")).unwrap();
    let stored = SafeTensors::deserialize(&bytes).unwrap();
    let trained = stored.iter().filter(|(name, _)| !name.contains("running_"));
    let numbers = |data: &[u8]| {
        let floats = data.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        floats.map(f64::from).collect()
    };
    trained.map(|(name, tensor)| (name.to_owned(), numbers(tensor.data()))).collect()
}
