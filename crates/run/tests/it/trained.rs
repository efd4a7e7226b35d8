//! Trained models, loaded from the folder of a run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use updraft_run::{Outcome, PredictedValue, RunError, TASKS, TrainedModel};
use updraft_testing::tolerance;

use crate::plans::{read, read_with};
use crate::train::{ROWS, Watcher, device, train, workload};

/// Rows of a line with a slope of 100 and an offset of 1000, as `x,y`.
fn line(path: &Path) {
    let mut text = "x,y\n".to_owned();
    for row in 0..60 {
        let x = f64::from(row) / 10.0;
        let _ = writeln!(text, "{x},{}", 1000.0 + 100.0 * x);
    }
    fs::write(path, text).expect("written");
}

#[test]
fn a_model_of_images_gives_every_class_a_probability() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read_with(TASKS[0].trial(), &["train.epochs=1"]).expect("valid").plan;
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let image = dir.path().join("image.png");
    image::RgbImage::from_pixel(40, 24, image::Rgb([250, 20, 20])).save(&image).expect("saved");

    let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");
    let classes = model.predict_file(&image).expect("a prediction");
    assert_eq!(classes.len(), model.classes().len());
    assert!(classes.iter().all(|class| model.classes().contains(&class.class)));
    assert!(classes.windows(2).all(|pair| pair[0].probability >= pair[1].probability));
    let sum: f64 = classes.iter().map(|class| f64::from(class.probability)).sum();
    updraft_testing::assert_close(&[sum][..], &[1.0], tolerance::F32);

    let predicted = model.predict(&image).expect("a prediction");
    assert_eq!(predicted.len(), 1);
    assert_eq!(predicted[0].sample, image.display().to_string());
    assert_eq!(predicted[0].outcome, Outcome::Classes(classes));
    let error = model.predict(dir.path().join("gone.png")).expect_err("no file");
    assert!(error.to_string().contains("gone.png"), "{error}");
    fs::write(dir.path().join("text.png"), "no image").expect("written");
    let error = model.predict(dir.path().join("text.png")).expect_err("no image");
    assert!(error.is_input() && error.to_string().contains("text.png"), "{error}");
}

#[test]
fn a_model_of_rows_predicts_numbers_in_the_unit_of_the_target() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    line(&dir.path().join("line.csv"));
    let text = format!(
        "task = \"tables\"\n[data]\nsource = \"files\"\ndir = {:?}\n\
         files = [\"line.csv\"]\nfeatures = [\"x\"]\n[targets]\ny = {{ kind = \"number\" }}\n\
         [model]\nkind = \"mlp\"\nhidden = [16]\ndropout = 0.0\n\
         [train]\nepochs = 150\nbatch = 16\nlearning_rate = 0.01\n",
        dir.path()
    );
    let plan = read(&text).expect("valid");
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());

    let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");
    assert!(model.classes().is_empty());
    // Other columns are passed over, and the target need not be known.
    let rows = dir.path().join("new.csv");
    fs::write(&rows, "note,x\nfirst,1.0\nsecond,4.0\n").expect("written");
    let predicted = model.predict(&rows).expect("predictions");
    assert_eq!(predicted.len(), 2);
    for (predicted, (row, expected)) in predicted.iter().zip([(1, 1100.0), (2, 1400.0)]) {
        assert_eq!(predicted.sample, format!("{} row {row}", rows.display()));
        let Outcome::Targets(targets) = &predicted.outcome else { panic!("{predicted:?}") };
        assert_eq!((targets.len(), targets[0].name.as_str()), (1, "y"));
        let PredictedValue::Number { value, unit, .. } = &targets[0].value else {
            panic!("{predicted:?}")
        };
        assert_eq!(*unit, updraft_trainer::Unit::Of("y".into()));
        // Standardized numbers would be within ±2.
        assert!((value - expected).abs() < 40.0, "{targets:?}");
    }
    // Many rows are predicted as few are.
    fs::write(&rows, format!("x\n{}", "1.0\n4.0\n".repeat(2500))).expect("written");
    let many = model.predict(&rows).expect("predictions");
    assert_eq!(many.len(), 5000);
    let value = |outcome: &Outcome| match outcome {
        Outcome::Targets(targets) => targets[0].value.number().expect("a number"),
        other => panic!("{other:?}"),
    };
    // Batches of another size are summed in another order.
    for (many, few) in many[4998..].iter().zip(&predicted) {
        let (many, few) = (value(&many.outcome), value(&few.outcome));
        assert!((many - few).abs() < 1e-5 * few.abs(), "{many} is not {few}");
    }
    blocks_are_those_of_one_reader(&model, &rows);
    fs::write(&rows, "1.0\n4.0\n").expect("written");
    let bare = model.predict(&rows).expect("a row needs no header");
    assert_eq!(bare, predicted, "two rows without a header");
    let error = model.predict_file(&rows).expect_err("no classes").to_string();
    assert!(error.contains("no classes; use `predict`"), "{error}");
    fs::write(&rows, "z\n1.0\n").expect("written");
    let error = model.predict(&rows).expect_err("no column x");
    assert!(error.is_input() && error.to_string().contains("no column `x`"), "{error}");
    fs::write(&rows, "x\n").expect("written");
    assert!(model.predict(&rows).expect_err("no rows").to_string().contains("no records"));
}

/// Readers that predict every second or third block, and skip the others, have all of them once.
fn blocks_are_those_of_one_reader(model: &TrainedModel, rows: &Path) {
    let numbers = |bad: Option<usize>| {
        let line = |row: usize| match bad {
            Some(bad) if bad == row => "bad\n".to_owned(),
            _ => format!("{}\n", (row * 7919 % 1000) as f64 / 100.0),
        };
        format!("x\n{}", (0..10_000).map(line).collect::<String>())
    };
    fs::write(rows, numbers(None)).expect("written");
    let expected = model.predict(rows).expect("predictions");
    for count in 1..4 {
        let mut readers: Vec<_> =
            (0..count).map(|_| model.blocks(rows).expect("rows are in blocks")).collect();
        let mut all = Vec::new();
        for block in 0.. {
            let mut here = None;
            for (at, reader) in readers.iter_mut().enumerate() {
                if at == block % count {
                    here = reader.predict().expect("predicted");
                } else {
                    assert_eq!(reader.skip().expect("skipped"), block < 3);
                }
            }
            let Some(here) = here else { break };
            assert!(here.len() <= 4096);
            all.extend(here);
        }
        assert!(all == expected, "{count} readers");
    }
    // A bad row is the error of its block, predicted or not.
    fs::write(rows, numbers(Some(5000))).expect("written");
    let expected = model.predict(rows).expect_err("a bad row").to_string();
    assert!(expected.contains("line 5002"), "{expected}");
    let mut blocks = model.blocks(rows).expect("rows are in blocks");
    assert!(blocks.skip().expect("good rows"));
    assert_eq!(blocks.predict().expect_err("a bad row").to_string(), expected);
    let mut blocks = model.blocks(rows).expect("rows are in blocks");
    assert_eq!(blocks.predict().expect("good rows").expect("rows").len(), 4096);
    assert_eq!(blocks.skip().expect_err("a bad row").to_string(), expected);
}

/// Rows of `a`, `y`, `b` without a header: `y` is ten times `a`, and `b` a word.
#[test]
fn rows_to_predict_need_the_features_by_name_or_by_place_and_no_target() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let row = |row: usize| format!("{row},{},{}\n", 10 * row, ["u", "v"][row % 2]);
    fs::write(dir.path().join("rows.csv"), (0..60).map(row).collect::<String>()).expect("written");
    let text = format!(
        "task = \"tables\"\n[data]\nsource = \"files\"\ndir = {:?}\n\
         files = [\"rows.csv\"]\ncolumns = [\"a\", \"y\", \"b\"]\ncategories = [\"b\"]\n\
         numbers = [\"a\"]\nencoding = \"one-hot\"\n[targets]\ny = {{ kind = \"number\" }}\n\
         [model]\nkind = \"mlp\"\nhidden = [4]\n[train]\nepochs = 2\nbatch = 16\n",
        dir.path()
    );
    let trained = train(&read(&text).expect("valid"), dir.path(), None, &mut Watcher::default());
    let model = TrainedModel::load(trained.folder.path(), "flex").expect("a run");
    let path = dir.path().join("new.csv");
    let predict = |text: &str| {
        fs::write(&path, text).expect("written");
        model.predict(&path)
    };
    let expected = predict("3,u\n50,v\n").expect("the features by their places");
    assert_eq!(expected.len(), 2);
    assert_ne!(expected[0].outcome, expected[1].outcome);
    for same in [
        "3,30,u\n50,500,v\n",
        "a,b\n3,u\n50,v\n",
        "note,b,a\nfirst,u,3\nsecond,v,50\n",
        "a,y,b\n3,0,u\n50,0,v\n",
    ] {
        assert_eq!(predict(same).expect(same), expected, "{same}");
    }
    for (text, expected) in [
        ("a,c\n3,u\n", "has no column `b`; it has `a`, `c`"),
        ("b\nu\n", "has no column `a`"),
        ("3\n", "has 1 fields, where a row has 3 or, without the targets, 2: the `data.columns`"),
        ("u,3\n", "line 1, column `a`: expected a finite number, got `u`"),
    ] {
        let error = predict(text).expect_err(text);
        assert!(error.is_input() && error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_run_that_is_missing_unfinished_or_damaged_is_refused() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let load = |run: &Path| TrainedModel::load(run, "flex").expect_err("refused");
    let dir = tempfile::tempdir().expect("temporary folder");
    let error = load(&dir.path().join("gone"));
    assert!(matches!(error, RunError::NoRun { .. }) && error.is_input(), "{error}");

    let plan = read(ROWS).expect("valid");
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let run = trained.folder.path();
    let error = TrainedModel::load(run, "abacus").expect_err("no device");
    assert!(matches!(error, RunError::Device(_)) && error.is_input(), "{error}");
    TrainedModel::load(run, "flex").expect("whole");

    let newest = trained.folder.newest_checkpoint().expect("a checkpoint");
    let model = newest.join("model.bpk");
    let mut bytes = fs::read(&model).expect("read");
    *bytes.last_mut().expect("not empty") ^= 1;
    fs::write(&model, bytes).expect("written");
    let error = load(run);
    assert!(matches!(error, RunError::Damaged { step: 4, .. }) && error.is_input(), "{error}");
    assert!(error.to_string().contains("`--checkpoint 4`"), "{error}");

    fs::write(run.join("encoder.json"), "{").expect("written");
    assert!(matches!(load(run), RunError::Json { .. }));
    fs::remove_dir_all(run.join("checkpoints")).expect("removed");
    fs::remove_file(run.join("encoder.json")).expect("removed");
    let error = load(run);
    assert!(matches!(error, RunError::LostFile { .. }) && error.is_input(), "{error}");
}

#[test]
fn a_loaded_model_computes_what_the_run_was_scored_with() {
    // Loading a model draws its parameters first, from the process's random state.
    let _alone = updraft_testing::alone();
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = read_with(ROWS, &["train.ema_decay=0.9"]).expect("valid").plan;
    let trained = train(&plan, dir.path(), None, &mut Watcher::default());
    let (device, _) = device();
    let poll = &mut |_| updraft_trainer::Control::Continue;
    let score = workload(&plan, None).evaluate(&plan, &trained.folder, &device, poll);
    let score = score.expect("scored").expect("not stopped");
    assert_eq!(score.value("y-rmse"), trained.test.expect("a score").value("y-rmse"));
}
