//! A trained run used from Rust.

use updraft::{Outcome, TrainedModel};

use crate::command::{TASKS, succeed, tiny};

#[test]
fn a_loaded_run_classifies_an_image_into_its_classes() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = dir.path().join(succeed(dir.path(), &tiny(&[])).run_folder());
    let image = dir.path().join("image.png");
    image::RgbImage::new(32, 32).save(&image).expect("saved");
    let model = TrainedModel::load(&run, "flex").expect("a run");
    let predictions = model.predict_file(&image).expect("a prediction");
    assert_eq!(predictions.len(), model.classes().len());
    assert!(predictions.windows(2).all(|pair| pair[0].probability >= pair[1].probability));
}

#[test]
fn a_loaded_run_predicts_the_rows_of_a_table() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = dir.path().join(TASKS[1].succeed(dir.path(), "train", &[]).run_folder());
    let rows = dir.path().join("rows.csv");
    std::fs::write(&rows, "x2,x1\n0.5,0.25\n0.5,0.25\n-0.5,1\n").expect("written");
    let model = TrainedModel::load(&run, "flex").expect("a run");
    assert!(model.classes().is_empty());
    let predicted = model.predict(&rows).expect("predictions");
    let value = |at: usize| match &predicted[at].outcome {
        Outcome::Targets(targets) => targets[0].value.number().expect("a number"),
        other => panic!("{other:?}"),
    };
    assert_eq!((predicted.len(), value(0)), (3, value(1)));
    assert!(value(0) != value(2));
    let refused = model.predict_file(&rows).expect_err("a row has no class").to_string();
    assert!(refused.contains("the model has no classes"), "{refused}");
}

/// The doc test of `TrainedModel` is the README's example with a run to load.
#[test]
fn the_readme_shows_the_example_that_the_doc_test_runs() {
    let block = |text: &str, open: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| *line != open).skip(1);
        lines.take_while(|line| !line.ends_with("```")).map(str::to_owned).collect()
    };
    let readme = block(include_str!("../../../../README.md"), "```rust");
    let tested = block(include_str!("../../src/lib.rs"), "/// ```");
    let visible: Vec<String> = tested
        .iter()
        .map(|line| line.trim_start_matches("///"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .filter(|line| !line.starts_with("# "))
        .map(str::to_owned)
        .collect();
    assert!(readme.len() >= 8, "{readme:?}");
    assert_eq!(readme, visible);
}

#[test]
fn an_unknown_device_is_an_error() {
    let error = TrainedModel::load("gone", "abacus").expect_err("no run");
    assert!(error.to_string().contains("gone"), "{error}");
}
