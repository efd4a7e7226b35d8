//! Targets that do not follow from the features: scores of test rows are those of chance, whatever is
//! fitted to the targets of other rows.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use updraft_data::Random;
use updraft_run::{Outcome, Trained, TrainedModel};

use crate::tables::with;
use crate::train::{Watcher, train};

/// The labels of a row, each on so many rows.
const LABELS: usize = 12;
const LABEL_SHARE: f64 = 0.3;

/// The rows with the rarer class, of the training and of the test rows.
const SOLD: [f64; 2] = [0.3, 0.7];

const TEST_ROWS: usize = 60;

/// A class whose weights are balanced, and labels whose thresholds are found.
const CONFIG: &str = "task = \"tables\"\n\
    [data]\nsource = \"files\"\nfiles = [\"train.csv\"]\ntest_files = [\"test.csv\"]\n\
    validation_fraction = 0.25\n\
    [targets]\n\
    sold = { kind = \"classes\", loss = { kind = \"cross-entropy\", class_weights = \"balanced\" } }\n\
    tags = { kind = \"labels\" }\n\
    [model]\nhidden = 16\nlayers = 1\nfrequencies = 4\nembedding = 4\n\
    [train]\nepochs = 12\nbatch = 50\nlearning_rate = 0.01\n";

/// Rows whose targets are drawn whatever the features are.
fn rows(count: usize, sold: f64, seed: u64) -> String {
    let mut random = Random::for_augment(seed, 0, 0);
    let mut text = "size,color,sold,tags\n".to_owned();
    for _ in 0..count {
        let size = random.open_unit();
        let color = ["red", "green", "blue"][random.below(3) as usize];
        let is_sold = if random.open_unit() < sold { "yes" } else { "no" };
        let tags: Vec<String> = (0..LABELS)
            .filter(|_| random.open_unit() < LABEL_SHARE)
            .map(|label| format!("t{label:02}"))
            .collect();
        let _ = writeln!(text, "{size},{color},{is_sold},{}", tags.join("|"));
    }
    text
}

/// A run on such rows, with test rows of this seed.
fn trained(dir: &Path, seed: u64) -> Trained {
    for (name, count, sold, seed) in
        [("train.csv", 800, SOLD[0], 1), ("test.csv", TEST_ROWS, SOLD[1], seed)]
    {
        fs::write(dir.join(name), rows(count, sold, seed)).expect("written");
    }
    train(&with(dir, CONFIG, &[]), dir, None, &mut Watcher::default())
}

#[test]
fn thresholds_have_the_scores_of_chance_on_shuffled_targets() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = trained(dir.path(), 2);
    let score = run.test.expect("a score");
    let value = |name: &str| score.value(name).expect(name);
    // The standard deviation of the AUC of 60 rows by chance is 0.08 (Hanley and McNeil 1982), that of
    // the mean of twelve labels 0.025.
    let (sold, tags) = (value("sold-auc"), value("tags-auc"));
    assert!((sold - 0.5).abs() < 0.24 && (tags - 0.5).abs() < 0.08, "AUC {sold}, {tags}");
    // A label of 30 % of the rows that is always predicted has an F1 of 0.46.
    let f1 = value("tags-macro-f1");
    assert!(f1 < 0.48, "macro F1 {f1}");
    // Nor do the stored thresholds depend on the test rows.
    let other = tempfile::tempdir().expect("temporary folder");
    let [stored, with_others] = [run.folder, trained(other.path(), 3).folder]
        .map(|folder| fs::read_to_string(folder.path().join("targets.json")).expect("read"));
    assert!(stored.contains("thresholds") && stored == with_others, "{stored} {with_others}");
}

#[test]
fn class_weights_follow_from_the_training_rows_only() {
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = trained(dir.path(), 2).folder;
    let model = TrainedModel::load(run.path(), "flex").expect("a run");
    let predicted = model.predict(dir.path().join("test.csv")).expect("predicted");
    let yes = predicted.iter().map(|row| match &row.outcome {
        Outcome::Targets(targets) => targets[0].value.probability("yes").expect("a class"),
        other => panic!("{other:?}"),
    });
    // Both classes are equally probable. With the weights of the test rows, the class of 30 % of the
    // training rows would have a probability of 16 %.
    let mean = yes.sum::<f32>() / predicted.len() as f32;
    assert!((mean - 0.5).abs() < 0.1, "mean probability {mean}");
}
