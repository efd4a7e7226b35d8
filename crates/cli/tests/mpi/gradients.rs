//! The gradients of the first update: those of one rank, for any number of ranks.

use std::fs;
use std::path::Path;

use serde_json::Value;
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

/// The largest difference from one rank, relative to the norm of all gradients.
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
        let gradients = |ranks: usize| -> Vec<f64> {
            let after = updated(ranks, FACTOR);
            assert_eq!(after.len(), before.len());
            before.iter().zip(after).map(|(before, after)| (before - after) / FACTOR).collect()
        };
        let norm = |numbers: &[f64]| numbers.iter().map(|x| x * x).sum::<f64>().sqrt();
        let alone = gradients(1);
        for ranks in [2, 3] {
            let of_ranks = gradients(ranks);
            let difference: Vec<f64> = of_ranks.iter().zip(&alone).map(|(a, b)| a - b).collect();
            let far = norm(&difference) / norm(&alone);
            // Ranks round differently, so that a run of one rank by mistake would show.
            assert!(far > 0.0 && far < MOST, "{name}: {ranks} ranks differ by {far}");
            println!("{name}: the first gradients of {ranks} ranks differ by {far:.1e} of one's");
        }
    }
}

/// Every parameter of the newest checkpoint, without running statistics.
fn parameters(runs: &Path) -> Vec<f64> {
    let run = run_of(runs).unwrap();
    let newest = list_checkpoints(&run.join("checkpoints")).unwrap().pop().unwrap();
    let bytes = fs::read(newest.join("model.safetensors")).unwrap();
    let (length, rest) = bytes.split_first_chunk().unwrap();
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
    let header: Value = serde_json::from_slice(header).unwrap();
    let mut numbers = Vec::new();
    for (name, tensor) in header.as_object().unwrap() {
        if name == "__metadata__" || name.contains("running_") {
            continue;
        }
        assert_eq!(tensor["dtype"], "F32", "{name}");
        let [from, to] = [0, 1].map(|at| tensor["data_offsets"][at].as_u64().unwrap() as usize);
        let floats = data[from..to].as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        numbers.extend(floats.map(f64::from));
    }
    numbers
}
