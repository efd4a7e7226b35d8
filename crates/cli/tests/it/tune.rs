//! Searches: trials in processes of their own, a study that survives whatever ends it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::command::{Said, json, run, succeed, updraft};

/// A search of seconds, on samples of a formula.
pub(crate) const CONFIG: &str = r#"
task = "tables"
name = "formula"

[data]
source = "formula"
train_rows = 60
test_rows = 30

[model]
kind = "kan"
hidden = [2]

[train]
epochs = 3
batch = 20
criterion = "test-y-rmse"

[tune]
trials = 5
sampler = { kind = "tpe", startup = 3 }

[tune.space]
"train.learning_rate" = { kind = "float", low = 1e-3, high = 1e-1, log = true }
"train.optimizer.kind" = { kind = "categorical", choices = ["adamw", "sgd"] }
"#;

pub(crate) fn folder(config: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), config).expect("written");
    dir
}

pub(crate) fn last_json(said: &Said) -> Value {
    json(said.stdout.lines().last().expect("a line"))
}

/// The lines of a study's journal.
fn journal(study: &Path) -> Vec<Value> {
    let text = fs::read_to_string(study.join("journal.jsonl")).expect("a journal");
    text.lines().map(json).collect()
}

/// The values of each finished trial: what has to be the same after a kill.
fn finished(study: &Path) -> Vec<(u64, Value, Value)> {
    let lines = journal(study);
    let of = |event: &'static str| lines.iter().filter(move |line| line["event"] == event);
    let values = |trial: &Value| {
        let started = of("started").find(|line| line["trial"] == *trial).expect("it was started");
        started["values"].clone()
    };
    let mut found: Vec<_> = of("finished")
        .map(|line| {
            let number = line["trial"].as_u64().expect("a number");
            (number, values(&line["trial"]), line["values"].clone())
        })
        .collect();
    found.sort_by_key(|(number, ..)| *number);
    found
}

fn checkpoints(study: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for trial in fs::read_dir(study.join("trials")).expect("trials").flatten() {
        let runs = fs::read_dir(trial.path()).expect("runs").flatten();
        for run in runs.filter(|run| run.path().join("checkpoints").exists()) {
            assert!(run.path().join("plan.toml").exists());
            found.push(trial.file_name().into_string().expect("text"));
        }
    }
    found
}

#[test]
fn a_search_ends_with_the_best_config_a_page_and_its_weights() {
    let dir = folder(CONFIG);
    let said = succeed(dir.path(), &["tune", "c.toml"]);
    let study = dir.path().join("runs/tune/formula");
    let report = last_json(&said);
    let all = finished(&study);
    assert_eq!((all.len(), &report["finished"], &report["failed"]), (5, &5.into(), &0.into()));
    let least = all.iter().map(|it| it.2[0].as_f64().expect("a number")).fold(f64::MAX, f64::min);
    let best = &report["front"][0];
    assert_eq!(best["objectives"][0].as_f64(), Some(least), "{report}");
    assert_eq!(report["front"].as_array().map(Vec::len), Some(1), "{report}");

    // The config trains as the trial did.
    let config = best["config"].as_str().expect("a path");
    let trained = succeed(dir.path(), &["train", config]);
    let summary = json(
        &fs::read_to_string(dir.path().join(trained.run_folder()).join("summary.json"))
            .expect("a summary"),
    );
    assert_eq!(summary["test"]["y-rmse"].as_f64(), Some(least));
    assert!(said.stderr.lines().last().expect("a line").ends_with(&format!("train {config}")));

    // Only the best trial has weights, with which it predicts.
    let number = best["trial"].as_u64().expect("a number");
    assert_eq!(checkpoints(&study), [format!("{number:04}")]);
    let run = best["run"].as_str().expect("a path");
    succeed(dir.path(), &["eval", run]);
    let page = fs::read_to_string(study.join("report.html")).expect("a page");
    assert!(page.contains("Importance for test-y-rmse") && page.contains("<svg"), "{page}");
    for line in said.stdout.lines().chain(said.stderr.lines()).filter(|it| !it.starts_with('{')) {
        assert!(line.chars().count() <= 80, "{line}");
    }

    let overhead = said.stdout.lines().find(|line| line.starts_with("overhead "));
    assert!(overhead.is_some_and(|line| line.ends_with("median of 5 trials")), "{}", said.stdout);
    assert!(report["overhead_ms"].as_f64().is_some_and(|it| it > 0.0), "{report}");

    // The number of trials is that of the study: the same command trains nothing.
    let before = journal(&study).len();
    let again = last_json(&succeed(dir.path(), &["tune", "c.toml"]));
    assert_eq!((&again["finished"], &again["overhead_ms"]), (&5.into(), &Value::Null));
    assert_eq!(journal(&study).len(), before);
    let more = succeed(dir.path(), &["tune", "c.toml", "--trials", "6"]);
    assert_eq!(last_json(&more)["finished"], 6);
    assert_eq!(finished(&study)[..5], all);
}

#[test]
fn trials_that_fail_end_alone_and_several_objectives_end_with_a_front() {
    let config = CONFIG
        .replace("trials = 5", "trials = 8\nobjectives = [\"test-loss\", \"parameters\"]")
        .replace("tpe\", startup = 3", "grid\", points = 2")
        .replace("high = 1e-1, log", "high = 1e30, log")
        + "\"model.hidden\" = { kind = \"categorical\", choices = [[1], [4]] }\n";
    // A step of 1e30 leaves the numbers that f32 has.
    let dir = folder(&config);
    let said = succeed(dir.path(), &["tune", "c.toml", "--workers", "2", "--study", "s"]);
    let (report, study) = (last_json(&said), dir.path().join("s"));
    assert!(report["failed"].as_u64().is_some_and(|failed| failed >= 2), "{report}");
    assert_eq!(report["trials"], 8, "{report}");
    let front = report["front"].as_array().expect("a list");
    let value = |trial: &Value, at: usize| trial["objectives"][at].as_f64().expect("a number");
    for pair in front.windows(2) {
        assert!(value(&pair[0], 0) <= value(&pair[1], 0), "{report}");
        assert!(value(&pair[0], 1) >= value(&pair[1], 1), "{report}");
    }
    for trial in front {
        let config = trial["config"].as_str().expect("a path");
        assert!(dir.path().join(config).exists(), "{config}");
        succeed(dir.path(), &["explain", config]);
    }
    assert_eq!(checkpoints(&study).len(), front.len());
    let reasons: Vec<String> = journal(&study)
        .iter()
        .filter(|line| line["event"] == "failed")
        .map(|line| line["reason"].to_string())
        .collect();
    assert!(reasons.iter().any(|reason| reason.contains("not finite")), "{reasons:?}");
}

#[test]
fn a_pruned_trial_stops_at_its_epoch() {
    let config =
        CONFIG.replace("trials = 5", "trials = 10\npruner = { kind = \"median\", startup = 2 }");
    let dir = folder(&config);
    let report = last_json(&succeed(dir.path(), &["tune", "c.toml", "--study", "s"]));
    let lines = journal(&dir.path().join("s"));
    let pruned: Vec<&Value> = lines.iter().filter(|line| line["event"] == "pruned").collect();
    assert!(!pruned.is_empty(), "{report}");
    assert_eq!(report["pruned"].as_u64(), Some(pruned.len() as u64));
    for line in pruned {
        let run = dir.path().join("s").join(line["note"].as_str().expect("a path"));
        let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
        let epochs = text.lines().filter(|line| line.contains("\"event\":\"epoch\"")).count();
        let of = |it: &&Value| it["event"] == "intermediate" && it["trial"] == line["trial"];
        let last = lines.iter().rfind(of).expect("a step");
        assert_eq!(last["step"].as_u64(), Some(epochs as u64), "it trained on");
    }
}

/// Kills a study so often, at other moments each time, and compares it with one that was not.
fn kill(times: u64, trials: u64) {
    let config = CONFIG.replace("trials = 5", &format!("trials = {trials}"));
    let dir = folder(&config);
    succeed(dir.path(), &["tune", "c.toml", "--study", "whole"]);
    let killed = dir.path().join("killed");
    let mut kills = 0;
    for moment in 0.. {
        let mut command = updraft(dir.path(), &["tune", "c.toml", "--study", "killed"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        // Other moments of a trial each time: its process, its epochs, its last line.
        let pause = 40 + (moment * 173) % 900;
        std::thread::sleep(Duration::from_millis(pause));
        if kills < times {
            child.kill().expect("a child");
            child.wait().expect("a child");
            kills += 1;
            continue;
        }
        assert!(child.wait().expect("a child").success());
        break;
    }
    assert_eq!(finished(&killed), finished(&dir.path().join("whole")), "after {kills} kills");
    let lines = journal(&killed);
    let mut numbers: Vec<&Value> =
        lines.iter().filter(|it| it["event"] == "finished").map(|it| &it["trial"]).collect();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, trials, "a trial was repeated");
}

#[test]
fn a_study_that_is_killed_ends_with_the_same_trials() {
    kill(4, 4);
}

#[test]
#[ignore = "slow: 50 kills, 2 minutes"]
fn a_study_that_is_killed_fifty_times_ends_with_the_same_trials() {
    kill(50, 40);
}

#[test]
fn two_processes_work_on_one_study() {
    let dir = folder(&CONFIG.replace("trials = 5", "trials = 8"));
    let arguments = ["tune", "c.toml", "--study", "s"];
    let mut other = updraft(dir.path(), &arguments);
    let mut other =
        other.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let own = succeed(dir.path(), &arguments);
    assert!(other.wait().expect("a child").success());
    assert_eq!(last_json(&own)["finished"], 8);
    let study = dir.path().join("s");
    let numbers: Vec<u64> = finished(&study).into_iter().map(|(number, ..)| number).collect();
    assert_eq!(numbers, (0..8).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_searched_is_refused_before_the_first_trial() {
    for (from, to, expected) in [
        ("[tune.space]", "[tune.spaces]", "unknown key `tune.spaces`; did you mean"),
        (
            "\"train.learning_rate\" =",
            "\"train.lerning_rate\" =",
            "unknown key `train.lerning_rate`; did you mean `train.learning_rate`?",
        ),
        ("low = 1e-3", "low = 1.0", "c.toml:23: `tune.space.train.learning_rate.high` is 0.1"),
        (
            "low = 1e-3, high = 1e-1, log = true",
            "low = -1, high = 1",
            "`train.learning_rate` is -1",
        ),
        ("trials = 5", "trials = 0", "c.toml:20: `tune.trials` is 0; it must be 1 to 100000"),
        (
            "trials = 5",
            "objectives = [\"test-accuracy\"]",
            "`tune.objectives` is `test-accuracy`; it must be one of `test-loss`, `test-y-mae`",
        ),
        (
            "trials = 5",
            "objectives = [\"test-loss\", \"parameters\"]\npruner = { kind = \"median\" }",
            "`tune.pruner` is",
        ),
        (
            "\"train.learning_rate\" =",
            "\"tune.attempts\" =",
            "`tune.space.tune.attempts` is given; it must be left out: only the search reads it",
        ),
        (
            "\"train.optimizer.kind\" = { kind = \"categorical\", choices = [\"adamw\", \"sgd\"]",
            "name = { kind = \"categorical\", choices = [\"a\", \"b\"]",
            "`tune.space.name` is given; it must be left out: it changes no result of a trial",
        ),
        (
            "\"train.optimizer.kind\" = { kind = \"categorical\", choices = [\"adamw\", \"sgd\"]",
            "\"train.criterion\" = { kind = \"categorical\", choices = [\"test-loss\", \"test-y-mae\"]",
            "trials are compared by `tune.objectives`",
        ),
        (
            "\"train.learning_rate\" =",
            "\"data.test_fraction\" =",
            "`tune.space.data.test_fraction` is given; it must be left out: trials are compared on",
        ),
        (
            "criterion = \"test-y-rmse\"\n\n[tune]\ntrials = 5\nsampler = { kind = \"tpe\", startup = 3 }\n\n[tune.space]\n\"train.learning_rate\" =",
            "\n[tune]\nobjectives = [\"test-loss\"]\n\n[tune.space]\n\"targets.y.weight\" =",
            "must be left out beside the objective `test-loss`, which it defines",
        ),
        ("startup = 3", "startup = 0", "`tune.sampler` is"),
        ("kind = \"tpe\", startup = 3", "kind = \"annealing\"", "`tune.sampler.kind` is"),
    ] {
        let config = CONFIG.replacen(from, to, 1);
        assert_ne!(config, CONFIG, "{from}");
        let dir = folder(&config);
        for more in [&["--dry-run"][..], &[]] {
            let said = run(dir.path(), &[&["tune", "c.toml"][..], more].concat());
            assert_eq!(said.code, 2, "{to}: {}", said.stderr);
            assert!(said.stderr.contains(expected), "{to}\n{}\n{expected}", said.stderr);
            assert!(!dir.path().join("runs").exists(), "{to}");
        }
    }
    let (none, _) = CONFIG.split_once("[tune.space]").expect("there");
    for (config, expected) in [
        (none.to_owned(), "`tune.space` is missing"),
        (format!("{none}[tune.space]\n"), "`tune.space` is"),
    ] {
        let dir = folder(&config);
        let said = run(dir.path(), &["tune", "c.toml"]);
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains(expected), "{}", said.stderr);
        assert!(!dir.path().join("runs").exists());
    }
    // Other commands pass over the section.
    let dir = folder(CONFIG);
    let plan = succeed(dir.path(), &["train", "c.toml", "--dry-run"]).stdout;
    assert!(!plan.contains("tune"), "{plan}");
}

#[test]
fn data_that_no_trial_can_learn_from_is_refused_before_the_first_trial() {
    let good = (0..50).map(|at| format!("{at},{},{},\n", at % 7, at * 2)).collect::<String>();
    let of_files = CONFIG
        .replace(
            "source = \"formula\"\ntrain_rows = 60\ntest_rows = 30",
            "source = \"files\"\nfiles = [\"t.csv\"]\nleave_out = [\"none\"]",
        )
        .replace("[model]", "[targets]\ny = { kind = \"number\" }\n\n[model]");
    assert!(of_files.contains("t.csv") && of_files.contains("[targets]"), "{of_files}");
    let dir = folder(&of_files);
    fs::write(dir.path().join("t.csv"), format!("a,b,y,none\n{good}")).expect("written");
    fs::write(dir.path().join("flat.csv"), format!("a,b,y,none\n{}", "1,2,3,\n".repeat(50)))
        .expect("written");
    for (set, expected) in [
        ("train.batch=41", "`train.batch` is 41; it must be at most 40, the training samples"),
        ("data.leave_out=[]", "the column `none` has no value in any training row"),
        ("data.files=['flat.csv']", "the target `y` is `3` in every training row"),
        ("data.files=['gone.csv']", "gone.csv"),
        ("data.leave_out=['z']", "`z`"),
    ] {
        let said = run(dir.path(), &["tune", "c.toml", "--data", ".", "--set", set]);
        assert_eq!(said.code, 2, "{set}: {}", said.stderr);
        assert!(said.stderr.contains(expected), "{set}: {}", said.stderr);
        assert!(!dir.path().join("runs").exists(), "{set}: it left a study");
    }
    // A batch that is searched decides instead of the one of the config.
    let batches = "tune.space.train.batch={ kind='integer', low=8, high=16 }";
    let sets = ["--set", "train.batch=41", "--set", "tune.trials=1", "--set", batches];
    succeed(dir.path(), &[&["tune", "c.toml", "--data", "."][..], &sets].concat());
}

#[test]
fn a_folder_with_another_study_is_refused() {
    let dir = folder(&CONFIG.replace("trials = 5", "trials = 1"));
    succeed(dir.path(), &["tune", "c.toml", "--study", "s"]);
    for (set, expected) in [
        ("train.batch=30", "another `train.batch` (20, here 30)"),
        ("tune.seed=4", "another `tune.seed` (1, here 4)"),
    ] {
        let said = run(dir.path(), &["tune", "c.toml", "--study", "s", "--set", set]);
        assert_eq!(said.code, 2, "{}", said.stderr);
        assert!(said.stderr.contains(expected), "{}", said.stderr);
    }
    // A line that was cut in its middle is none.
    let path = dir.path().join("s/journal.jsonl");
    let mut text = fs::read_to_string(&path).expect("a journal");
    text.truncate(text.len() - 20);
    fs::write(&path, text).expect("written");
    let said = succeed(dir.path(), &["tune", "c.toml", "--study", "s"]);
    assert_eq!(last_json(&said)["finished"], 1);
}

#[test]
fn a_study_whose_first_trials_all_fail_ends_with_their_reason() {
    let rates = "low = 1e30, high = 1e31";
    let config =
        CONFIG.replace("trials = 5", "trials = 20").replace("low = 1e-3, high = 1e-1", rates);
    let dir = folder(&config);
    let said = run(dir.path(), &["tune", "c.toml", "--study", "s"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("the first 5 trials all failed"), "{}", said.stderr);
    let page = fs::read_to_string(dir.path().join("s/report.html")).expect("a page");
    assert!(page.contains("5 trials: 0 finished, 0 pruned, 5 failed"), "{page}");
}
