//! Splits of tables, thresholds found on validation rows, and runs on shuffled targets.

use std::fs;
use std::path::Path;

use updraft_run::{Outcome, Picture, Plan, PredictedValue, Trained, TrainedModel};
use updraft_trainer::Control;

use crate::plans::read_with;
use crate::tables::{HEADER, MIXED, mixed, rows, with};
use crate::train::{Watcher, device, train, workload};

/// The thresholds of the labels `large` and `warm`.
fn thresholds(trained: &Trained) -> Vec<f64> {
    let text = fs::read_to_string(trained.folder.path().join("targets.json")).expect("written");
    let codes: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let of = |code: &serde_json::Value| code["thresholds"].as_array().cloned();
    let found = codes.as_array().expect("a list").iter().find_map(of).expect("of labels");
    found.iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn value(trained: &Trained, metric: &str) -> f64 {
    trained.test.as_ref().and_then(|test| test.value(metric)).expect("defined")
}

#[test]
fn thresholds_are_found_on_validation_rows_stored_and_used() {
    let _alone = updraft_testing::alone();
    let sets = ["data.validation_fraction=0.25", "train.epochs=4"];
    let (dir, plan) = mixed(&sets, &rows(200, 1000));
    let mut watcher = Watcher::default();
    let trained = train(&plan, dir.path(), None, &mut watcher);
    let begun = watcher.begun.expect("it began").0;
    assert!(begun.starts_with("89 training, 31 validation and 200 test rows"), "{begun}");
    let found = thresholds(&trained);
    assert!(found.iter().all(|one| *one > 0.0 && *one < 1.0 && *one != 0.5), "{found:?}");

    // `eval` opens the data with the run, and scores with its thresholds.
    let scored = || {
        let workload = workload(&plan, Some(&trained.folder));
        let poll = &mut |_| Control::Continue;
        let score = workload.evaluate(&plan, &trained.folder, &device().0, poll).expect("scored");
        score.expect("not stopped").value("tags-macro-f1").expect("defined")
    };
    let expected = value(&trained, "tags-macro-f1");
    assert_eq!(scored(), expected);
    let path = trained.folder.path().join("targets.json");
    let text = fs::read_to_string(&path).expect("read");
    let mut codes: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let labels = codes.as_array_mut().expect("a list").iter_mut();
    for code in labels.filter(|code| code["kind"] == "labels") {
        code["thresholds"] = serde_json::json!([1.0, 1.0]);
    }
    fs::write(&path, codes.to_string()).expect("written");
    assert!(scored() < expected, "no row has a label with a threshold of 1");

    // So does `predict`.
    let new = dir.path().join("new.csv");
    fs::write(&new, "size,color,words,gap\n9,red,a,7\n").expect("written");
    let applies = || {
        let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");
        let predicted = model.predict(&new).expect("predicted");
        let Outcome::Targets(targets) = &predicted[0].outcome else { panic!("{predicted:?}") };
        let tags = targets.iter().find(|target| target.name == "tags").expect("a target");
        let PredictedValue::Labels(labels) = &tags.value else { panic!("{tags:?}") };
        labels.iter().map(|label| label.applies).collect::<Vec<_>>()
    };
    assert_eq!(applies(), [false, false]);
    fs::write(&path, text.replace("0.", "0.0000")).expect("written");
    assert_eq!(applies(), [true, true]);
    // A threshold that no file of a run has.
    let damaged = codes.to_string().replace("1.0", "1.5");
    fs::write(&path, damaged).expect("written");
    let error = TrainedModel::load(trained.folder.path(), "flex").map(drop).expect_err("refused");
    assert!(error.to_string().contains("threshold from 0 to 1"), "{error}");
}

/// Rows whose targets are those of other rows: no feature says anything about them.
fn shuffled(count: usize, first: usize) -> String {
    let rows = rows(count, first);
    let rows: Vec<&str> = rows.lines().collect();
    let targets = |row: &&str| row.splitn(5, ',').nth(4).map(str::to_owned).expect("targets");
    let mut others: Vec<String> = rows.iter().map(targets).collect();
    // Fisher and Yates, by a generator of Knuth's.
    let mut state = first as u64 + 12345;
    for at in (1..others.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        others.swap(at, (state >> 33) as usize % (at + 1));
    }
    let row = |(row, targets): (&&str, String)| {
        let features: Vec<&str> = row.splitn(5, ',').take(4).collect();
        format!("{},{targets}\n", features.join(","))
    };
    rows.iter().zip(others).map(row).collect()
}

/// Thresholds and class weights come from the targets, so scores above chance would reveal test rows.
#[test]
fn shuffled_targets_are_predicted_by_chance() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (file, count, first) in [("train.csv", 800, 0), ("test.csv", 800, 5000)] {
        let text = format!("{HEADER}{}", shuffled(count, first));
        fs::write(dir.path().join(file), text).expect("written");
    }
    let sets = [
        "data.validation_fraction=0.25",
        "train.epochs=10",
        "targets.sold.loss={kind = \"cross-entropy\", class_weights = \"balanced\"}",
    ];
    let trained = train(&with(dir.path(), MIXED, &sets), dir.path(), None, &mut Watcher::default());
    // The standard deviation of the AUC of 800 random rows is 0.02.
    for metric in ["sold-auc", "tags-auc", "sold-balanced-accuracy"] {
        let found = value(&trained, metric);
        assert!((found - 0.5).abs() < 0.08, "{metric} {found}");
    }
    assert!(value(&trained, "price-r-squared") < 0.05);
    // Predicting a label everywhere has an F1 of 2p / (1 + p), for p of 1/2 and 1/3 0.667 and 0.5.
    let found = value(&trained, "tags-macro-f1");
    assert!(found < 0.583 + 0.05, "{found}");
}

/// The plan of a run on one table, with three rows of each of forty customers.
fn one_table(dir: &Path, sets: &[&str]) -> Result<Plan, String> {
    let rows = rows(120, 0);
    let customers = rows.lines().enumerate().map(|(at, row)| format!("c{},{row}\n", at / 3));
    let text: String = customers.collect();
    fs::write(dir.join("train.csv"), format!("customer,{HEADER}{text}")).expect("written");
    let text = MIXED.replace("test_files = [\"test.csv\"]\n", "");
    let own = format!("data.dir={}", dir.display());
    let sets = [&[own.as_str(), "data.stratify=sold", "train.epochs=1"], sets].concat();
    read_with(&text, &sets).map(|read| read.plan).map_err(|error| error.to_string())
}

#[test]
fn folds_test_every_row_once_and_groups_stay_together() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let about = |sets: &[&str]| {
        let plan = one_table(dir.path(), sets).expect("valid");
        let about = workload(&plan, None).about();
        (about.train_samples, about.test_samples, about.data)
    };
    let fold =
        |fold: usize| about(&["data.folds=4", &format!("data.fold={fold}"), "data.group=customer"]);
    let tested: Vec<usize> = (1..=4).map(|at| fold(at).1).collect();
    assert_eq!(tested.iter().sum::<usize>(), 120);
    // Groups have three rows.
    assert!(tested.iter().all(|rows| rows % 3 == 0 && (24..=36).contains(rows)), "{tested:?}");
    // The group is no feature: `color` and `words` are categories.
    let (_, rows, data) = about(&["data.test_fraction=0.25", "data.group=customer"]);
    assert!(rows % 3 == 0 && data.contains("1 categories and"), "{rows} {data}");
    let (_, _, data) = about(&["data.test_fraction=0.25"]);
    assert!(data.contains("2 categories and"), "{data}");
    for (sets, expected) in [
        (vec!["data.folds=1"], "2 to 1000"),
        (vec!["data.folds=3", "data.fold=4"], "1 to 3, the number of folds"),
        (vec!["data.fold=2"], "data.fold"),
        (vec!["data.folds=3", "data.test_fraction=0.5"], "data.test_fraction"),
        (vec!["data.group=sold"], "no target"),
        (vec!["data.group=customer", "data.features=[\"customer\"]"], "`data.group`"),
        (vec!["data.group=customer", "data.test_files=[\"test.csv\"]"], "data."),
        (vec!["targets={sold = {kind = \"classes\"}}", "data.validation_fraction=0.2"], "`labels`"),
    ] {
        let error = one_table(dir.path(), &sets).map(drop).expect_err(expected);
        assert!(error.contains(expected), "{sets:?}: {error}");
    }
}

#[test]
fn the_feature_that_decides_is_the_most_important() {
    let sets = ["train.epochs=40", "train.learning_rate=0.01", "model.dropout=0.0"];
    let (dir, plan) = mixed(&sets, &rows(200, 1000));
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let pictures = trained.folder.pictures().expect("pictures");
    let begins = |title: &str, of: &str| title.starts_with(of);
    let importance = |target: &str| {
        let of = format!("Importance of features for `{target}`");
        let found = pictures.iter().find_map(|picture| match picture {
            Picture::Bars { title, bars, .. } if begins(title, &of) => Some(bars.clone()),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("no picture of {target}"))
    };
    // Sold, grade and price follow from the size, and the tags from size and color.
    for target in ["sold", "grade", "price"] {
        let bars = importance(target);
        assert_eq!((bars.len(), bars[0].name.as_str()), (4, "size"), "{bars:?}");
        assert!(bars[0].value > 3.0 * bars[1].value.abs(), "{bars:?}");
    }
    let line = pictures.iter().find_map(|picture| match picture {
        Picture::Lines { title, x_name, lines }
            if begins(title, "Partial dependence of `sold`") && x_name == "size" =>
        {
            Some(lines[0].clone())
        }
        _ => None,
    });
    let line = line.expect("the dependence on the size");
    assert_eq!(line.name, "yes");
    let (first, last) = (line.points[0], line.points[line.points.len() - 1]);
    assert!(first[0] < 1.0 && last[0] > 9.0 && first[1] < 0.2 && last[1] > 0.8, "{line:?}");
    let has_words = pictures.iter().any(|picture| {
        matches!(picture, Picture::Bars { title, bars, .. }
            if begins(title, "Partial dependence of `tags` on `color`")
                && bars.iter().any(|bar| bar.name == "red"))
    });
    assert!(has_words);
    // Without rows there is neither.
    let plan = with(dir.path(), MIXED, &["data.importance_rows=0", "train.epochs=1"]);
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let pictures = trained.folder.pictures().expect("pictures");
    assert!(!pictures.iter().any(|picture| matches!(picture, Picture::Bars { .. })));
}
