//! Splits of tables, thresholds found on validation rows, and the importance of features.

use std::fs;
use std::path::Path;

use updraft_run::{
    Opening, Outcome, Picture, Plan, PredictedValue, RunFolder, Trained, TrainedModel, read_metrics,
};
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

/// Stores other thresholds in a run, and returns its codes.
fn store_thresholds(folder: &RunFolder, thresholds: [f64; 2]) -> serde_json::Value {
    let path = folder.path().join("targets.json");
    let text = fs::read_to_string(&path).expect("read");
    let mut codes: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let labels = codes.as_array_mut().expect("a list").iter_mut();
    for code in labels.filter(|code| code["kind"] == "labels") {
        code["thresholds"] = serde_json::json!(thresholds);
    }
    folder.write_bound_json("targets.json", &codes).expect("written");
    codes
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
    let codes = store_thresholds(&trained.folder, [1.0, 1.0]);
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
    let lower = text.replace("0.", "0.0000");
    trained.folder.write_bound("targets.json", lower.as_bytes()).expect("written");
    assert_eq!(applies(), [true, true]);
    // A threshold that no file of a run has.
    let damaged = codes.to_string().replace("1.0", "1.5");
    trained.folder.write_bound("targets.json", damaged.as_bytes()).expect("written");
    let error = TrainedModel::load(trained.folder.path(), "flex").map(drop).expect_err("refused");
    assert!(error.to_string().contains("threshold from 0 to 1"), "{error}");
}

/// A run that was stopped, whose stored thresholds are those of another moment.
#[test]
fn epochs_after_a_resume_are_scored_with_thresholds_of_a_half() {
    let tags = |folder: &RunFolder| {
        let lines = read_metrics(folder).expect("metrics").lines;
        let epochs = lines.iter().filter(|line| line["event"] == "epoch");
        epochs.map(|line| line["test"]["tags-macro-f1"].as_f64()).collect::<Vec<_>>()
    };
    for sets in [&["data.validation_fraction=0.25", "train.epochs=3"][..], &["train.epochs=3"]] {
        let (dir, plan) = mixed(sets, &rows(200, 1000));
        let whole = train(&plan, dir.path(), None, &mut Watcher::default());
        let mut stops = Watcher { stop_after: Some(4), ..Watcher::default() };
        let stopped = train(&plan, dir.path(), None, &mut stops).folder;
        store_thresholds(&stopped, [0.0, 0.0]);
        let resumed = train(&plan, dir.path(), Some(stopped), &mut Watcher::default());
        let found = tags(&resumed.folder);
        assert_eq!((found.len(), &found), (3, &tags(&whole.folder)), "{sets:?}");
        assert_eq!(thresholds(&resumed), thresholds(&whole), "{sets:?}");
        assert_eq!(value(&resumed, "tags-macro-f1"), value(&whole, "tags-macro-f1"), "{sets:?}");
        if sets.len() == 1 {
            assert_eq!(thresholds(&resumed), [0.5, 0.5]);
        }
    }
}

/// Everything that a run stores of its data but the scores follows from the training rows.
#[test]
fn test_rows_decide_no_threshold_no_class_weight_and_no_scale() {
    let sets = [
        "data.validation_fraction=0.25",
        "train.epochs=4",
        "targets.sold.loss={kind = \"cross-entropy\", class_weights = \"balanced\"}",
    ];
    // The second test file has other sizes, gaps and frequencies of every target.
    let skewed = rows(200, 5000).replace(",red,", ",green,");
    let skewed: String = skewed
        .lines()
        .filter(|row| row.contains(",yes,"))
        .fold(String::new(), |text, row| format!("{text}{row}\n"));
    let [one, other] = [rows(200, 1000), skewed].map(|test| {
        let (dir, plan) = mixed(&sets, &test);
        let trained = train(&plan, dir.path(), None, &mut Watcher::default());
        let stored = ["encoder.json", "targets.json"]
            .map(|name| fs::read_to_string(trained.folder.path().join(name)).expect("a coding"));
        let lines = read_metrics(&trained.folder).expect("metrics").lines;
        let losses = lines.iter().filter(|line| line["event"] == "epoch");
        let losses: Vec<_> = losses.map(|line| line["train"]["loss"].as_f64()).collect();
        (stored, losses, thresholds(&trained), value(&trained, "tags-macro-f1"))
    });
    assert_eq!(one.0, other.0);
    assert_eq!(one.1, other.1);
    assert!(one.2.iter().all(|threshold| *threshold != 0.5), "{:?}", one.2);
    assert_ne!(one.3, other.3, "the test rows are others");
}

/// The plan of a run on one table, with three rows of each of forty customers.
fn one_table(dir: &Path, is_stratified: bool, sets: &[&str]) -> Result<Plan, String> {
    let rows = rows(120, 0);
    let customers = rows.lines().enumerate().map(|(at, row)| format!("c{},{row}\n", at / 3));
    let text: String = customers.collect();
    fs::write(dir.join("train.csv"), format!("customer,{HEADER}{text}")).expect("written");
    let text = MIXED.replace("test_files = [\"test.csv\"]\n", "");
    let own = format!("data.dir={}", dir.display());
    let stratify = if is_stratified { &["data.stratify=sold"][..] } else { &[] };
    let sets = [&[own.as_str(), "train.epochs=1"], stratify, sets].concat();
    read_with(&text, &sets).map(|read| read.plan).map_err(|error| error.to_string())
}

#[test]
fn folds_test_every_row_once_and_groups_stay_together() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let about = |sets: &[&str]| {
        let plan = one_table(dir.path(), true, sets).expect("valid");
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
    let (_, test, data) = about(&["data.test_fraction=0.25", "data.group=customer"]);
    assert!(test % 3 == 0 && data.contains("1 categories and"), "{test} {data}");
    let (_, _, data) = about(&["data.test_fraction=0.25"]);
    assert!(data.contains("2 categories and"), "{data}");
    // With test files, only the validation rows are grouped.
    fs::write(dir.path().join("test.csv"), format!("customer,{HEADER}c1,{}", rows(1, 0)))
        .expect("written");
    let sets = ["data.test_files=[\"test.csv\"]", "data.group=customer"];
    let separate = |more: &[&str]| one_table(dir.path(), false, &[&sets, more].concat());
    let about =
        workload(&separate(&["data.validation_fraction=0.25"]).expect("valid"), None).about();
    assert!(about.data.contains("1 categories and"), "{}", about.data);
    assert!(about.notes[0].starts_with("1 of 1 test rows have a value of `data.group`"));
    assert_eq!((about.train_samples % 3, about.test_samples), (0, 1));
}

#[test]
fn a_setting_of_a_split_is_refused_with_the_key_that_decides() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let columns = "data.columns=['customer', 'size', 'color', 'words', 'gap', 'price', 'sold', \
                   'grade', 'tags']";
    let files = "data.test_files=[\"test.csv\"]";
    for (sets, expected) in [
        (vec!["data.folds=1"], "`data.folds` is 1; it must be 2 to 1000"),
        (
            vec!["data.folds=3", "data.fold=4"],
            "`data.fold` is 4; it must be 1 to 3, the number of folds",
        ),
        (
            vec!["data.fold=2"],
            "`data.fold` is 2; it must be left out without `data.folds`, the number of folds",
        ),
        (
            vec!["data.folds=3", "data.test_fraction=0.5"],
            "`data.test_fraction` is not read beside `data.folds = 3`; leave it out or change \
             that",
        ),
        (
            vec!["data.group=sold"],
            "`data.group` is \"sold\"; it must be a column that is not a target",
        ),
        (
            vec!["data.group=customer", "data.features=[\"customer\"]"],
            "`data.features` is [\"customer\"]; it must be a list without `customer`, which is \
             `data.group`",
        ),
        (
            vec!["data.group=custmer", columns],
            "`data.group` is \"custmer\"; it must be one of `data.columns`",
        ),
        (
            vec!["targets={sold = {kind = \"classes\"}}", "data.validation_fraction=0.2"],
            "`data.validation_fraction` is 0.2; it must be 0 without a target of the kind \
             `labels`, whose thresholds are found on these rows",
        ),
    ] {
        let error = one_table(dir.path(), true, &sets).map(drop).expect_err(expected);
        assert_eq!(error, expected, "{sets:?}");
    }
    for set in ["data.test_fraction=0.5", "data.stratify=sold", "data.folds=3", "data.fold=1"] {
        let key = set.split('=').next().expect("a key");
        let error = one_table(dir.path(), false, &[files, set]).map(drop).expect_err(set);
        let expected = format!("`{key}` is not read beside `data.test_files = [\"test.csv\"]`");
        assert!(error.starts_with(&expected), "{set}: {error}");
    }
    // Three rows of each of forty customers.
    let opened = |sets: &[&str]| {
        let plan = one_table(dir.path(), true, sets).expect("valid");
        let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
        plan.task.open(&plan, opening).map(drop).expect_err("too many folds").to_string()
    };
    let found = opened(&["data.folds=50", "data.group=customer"]);
    assert!(found.starts_with("`data.folds` is 50, and 120 rows have 40 values of"), "{found}");
    let found = opened(&["data.folds=200"]);
    assert!(found.starts_with("`data.folds` is 200, and the data has 120 rows"), "{found}");
    let found = opened(&["data.group=custmer"]);
    assert!(found.contains("`custmer`") && found.contains("`customer`"), "{found}");
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
