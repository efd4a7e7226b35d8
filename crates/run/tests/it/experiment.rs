//! A run from a configuration in one expression.

use std::fs;
use std::path::{Path, PathBuf};

use updraft_run::{Beginning, Experiment, Observer, RunError};
use updraft_trainer::{Control, Ending, Event};

fn config(dir: &Path) -> PathBuf {
    let path = dir.join("c.toml");
    let text = r#"
task = "tables"
data = { source = "formula", formula = "exp-sin-square", train_rows = 80, test_rows = 20 }
train = { epochs = 9, batch = 20 }
"#;
    fs::write(&path, text).expect("written");
    path
}

#[test]
fn values_of_any_kind_are_set_and_the_last_one_counts() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = Experiment::from_config(config(dir.path()))
        .set("train.epochs", 5)
        .set("train.epochs", 2)
        .set("train.learning_rate", 0.125)
        .set("name", "of \"mine\"".replace([' ', '"'], "-"))
        .set("log.csv", true)
        .profile("low-memory")
        .plan()
        .expect("a plan");
    assert_eq!((plan.train.epochs, plan.train.learning_rate), (2, 0.125));
    assert_eq!((plan.name.as_str(), plan.train.batch), ("of--mine-", 20));
    assert_eq!(plan.table()["train"]["recompute"].as_str(), Some("element-wise"));
}

#[test]
fn a_run_is_made_where_it_is_asked_for_and_an_observer_stops_it() {
    let _alone = updraft_testing::alone();
    struct Stop;
    impl Observer for Stop {
        fn begin(&mut self, _: &Beginning<'_>) -> Result<(), RunError> {
            Ok(())
        }

        fn event(&mut self, event: &Event) -> Control {
            match event {
                Event::Step(report) if report.step == 1 => Control::Stop,
                _ => Control::Continue,
            }
        }
    }
    let dir = tempfile::tempdir().expect("temporary folder");
    let runs = dir.path().join("mine");
    let experiment = Experiment::from_config(config(dir.path())).set("train.epochs", 1).runs(&runs);
    let trained = experiment.train().expect("trained");
    assert_eq!((trained.ending, trained.folder.path().parent()), (Ending::Complete, Some(&*runs)));
    assert!(trained.test.expect("scored").loss().is_finite());
    let stopped = experiment.train_with(&mut Stop).expect("stopped");
    assert_eq!(stopped.ending, Ending::Stopped);
}

#[test]
fn errors_name_the_file_the_key_and_what_it_must_be() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let experiment = || Experiment::from_config(config(dir.path())).runs(dir.path().join("runs"));
    let refused = |experiment: Experiment| experiment.train().expect_err("refused").to_string();
    for (experiment, words) in [
        (Experiment::from_config(dir.path().join("gone.toml")), "gone.toml"),
        (experiment().set("train.epochs", 0), "`train.epochs` is 0; it must be at least 1"),
        (experiment().set("train.epoch", 1), "train.epoch"),
        (experiment().set("device", "cuda:0"), "cuda:0"),
        (experiment().profile("fast"), "fast"),
        (experiment().set("train.auto_batch.most", 8), "starts processes of the command line"),
    ] {
        let error = refused(experiment);
        assert!(error.contains(words), "{error}");
    }
    assert!(!dir.path().join("runs").exists(), "something was written");
}
