//! Every command with every task, and what a task refuses.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{
    Small, TASKS, commands, config, everything_in, json, metrics, run, said, succeed, texts,
    updraft,
};
use crate::determinism::tensors;

/// The reason against int8 of the run of splines among [`TASKS`].
const NO_SPLINES: &str = "int8 has no splines, and `model.kind` is `kan`";

/// The reason of a small run against an ability: that of its task or of its model.
fn refusal_of(small: &Small, ability: &str) -> Option<String> {
    let int8 = ["quantize", "pipeline", "eval --int8", "predict --int8"];
    let is_of_splines = small.config == "kan-quickstart.toml" && int8.contains(&ability);
    refusal(small.task, ability).or_else(|| is_of_splines.then(|| NO_SPLINES.to_owned()))
}

/// The reason of a task against an ability, from `tasks --json`.
fn refusal(task: &str, ability: &str) -> Option<String> {
    let dir = tempfile::tempdir().expect("temporary folder");
    let table = json(&succeed(dir.path(), &["tasks", "--json"]).stdout);
    let tasks = table["tasks"].as_array().expect("a list").clone();
    let of_task = tasks.into_iter().find(|found| found["task"] == task).expect("the task");
    let refused = of_task["refused"].as_array().expect("a list").clone();
    let names = |found: &Value| found["ability"].as_str().expect("a name").to_owned();
    let is_named = |found: &Value| names(found).split(", ").any(|name| name == ability);
    let refused = refused.into_iter().find(is_named)?;
    Some(refused["reason"].as_str().expect("a reason").to_owned())
}

#[test]
fn the_table_of_tasks_says_of_each_what_it_can_and_why_it_cannot() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let table = succeed(dir.path(), &["tasks"]).stdout;
    for line in table.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for Small { task, .. } in &TASKS {
        assert!(table.contains(task), "{table}");
    }
    assert!(table.contains("\nevery task: train, train --resume, launch, eval"), "{table}");
    assert!(table.starts_with("image-classification (the default): "), "{table}");
    let quantize = table.lines().rfind(|line| line.trim_start().starts_with("quantize"));
    let all_but_one = "yes, for all networks but KAN layers";
    assert!(quantize.expect("a row").contains(all_but_one), "{table}");
    let reason = refusal("masked-images", "quantize").expect("refused");
    assert!(table.contains(reason.split(' ').next().expect("a word")), "{table}");
    let images = json(&succeed(dir.path(), &["tasks", "--json"]).stdout);
    assert_eq!(images["tasks"][0]["refused"], Value::Array(Vec::new()), "{images}");
    // Of the networks that convert images, some are not quantized.
    assert!(table.contains("quantize, pipeline             yes, for 2D U-Nets with"), "{table}");
    let limited = &images["tasks"][1]["limited"];
    let to = "2D U-Nets with batch norm, 2D autoencoders and vision transformers";
    assert_eq!(limited[0]["to"], to, "{limited}");
}

#[test]
fn every_registered_task_is_tried_here() {
    let registered: BTreeSet<&str> = updraft_run::TASKS.iter().map(|kind| kind.name()).collect();
    assert_eq!(registered, TASKS.iter().map(|small| small.task).collect());
}

#[test]
fn a_dry_run_of_every_command_writes_nothing() {
    let mut tried = BTreeSet::new();
    for small in &TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let trained = small.succeed(dir.path(), "train", &["train.epochs=1"]).run_folder();
        let trained = trained.to_str().expect("text");
        fs::write(dir.path().join("one.csv"), "x1,x2\n0.5,0.5\n").expect("written");
        let before = everything_in(dir.path());
        let config = config(small.config);
        let mut predict = vec!["predict", trained, "one.csv"];
        if ["image-to-image", "masked-images"].contains(&small.task) {
            predict.extend(["--out", "out.tif"]);
        }
        for arguments in [
            &["train", &config][..],
            &["train", "--resume", trained],
            &["launch", "-n", "2", "--", "train", &config],
            &["eval", trained],
            &predict,
            &["tasks"],
            &["probe"],
            &["quantize", trained],
            &["pipeline", &config],
            &["explain", &config],
            &["lr-find", &config],
            &["compare", &config, "--arm", "train.epochs=2", "--arm", "train.epochs=1"],
            &["batch-find", &config],
            &["verify"],
            &["endure"],
            &["tune", &config, "--set", "tune.space={seed={kind=\"integer\",low=1,high=3}}"],
            &["report", trained],
            &["validate", trained, "--against", "precision=bf16-mixed"],
            &["warm-up", &config],
            &["compare-options", &config],
            &["batch-sweep", &config],
            &["scale-estimate", &config, "--ranks", "2", "--bandwidth", "1", "--latency", "9"],
            &["tune-performance", &config],
        ] {
            tried.insert(arguments[0].to_owned());
            let said =
                run(dir.path(), &[&arguments[..1], &["--dry-run"], &arguments[1..]].concat());
            match refusal_of(small, arguments[0]) {
                None => {
                    assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
                    assert!(!said.stdout.is_empty(), "{arguments:?} printed nothing");
                    let only_prints = ["tasks", "probe", "explain"];
                    let says = said.stdout.contains("would write  ");
                    assert_eq!(says, !only_prints.contains(&arguments[0]), "{}", said.stdout);
                    // A plan is printed by the commands that train with it.
                    let trains = ["train", "pipeline", "compare", "tune", "explain"];
                    let has_plan = said.stdout.contains("learning_rate");
                    assert_eq!(has_plan, trains.contains(&arguments[0]), "{arguments:?}");
                }
                Some(reason) => {
                    assert_eq!(said.code, 2, "{arguments:?}: {}", said.stdout);
                    assert!(said.stderr.contains(&reason), "{arguments:?}: {}", said.stderr);
                }
            }
            assert_eq!(everything_in(dir.path()), before, "{arguments:?} wrote something");
        }
    }
    assert_eq!(tried, commands(), "a command has no dry run here");
}

#[test]
fn what_a_task_cannot_do_is_refused_with_the_reason_before_any_work() {
    let small = &TASKS[1];
    let dir = tempfile::tempdir().expect("temporary folder");
    let trained = small.succeed(dir.path(), "train", &[]).run_folder();
    let trained = trained.to_str().expect("text");
    let before = everything_in(dir.path());
    let config = config(small.config);
    for (ability, arguments) in [
        ("quantize", &["quantize", trained][..]),
        ("pipeline", &["pipeline", &config]),
        ("eval --int8", &["eval", trained, "--int8"]),
        ("eval --tta", &["eval", trained, "--tta", "flip"]),
        ("predict --int8", &["predict", trained, "a.csv", "--int8"]),
        (
            "train.recompute = \"segments\"",
            &["train", &config, "--set", "train.recompute=segments"],
        ),
        (
            "train.recompute_batch_norms",
            &["train", &config, "--set", "train.recompute_batch_norms=all"],
        ),
    ] {
        let reason = refusal_of(small, ability).expect("refused");
        let said = run(dir.path(), arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
        assert_eq!((said.stdout.as_str(), said.stderr.lines().count()), ("", 1), "{}", said.stderr);
        assert!(said.stderr.contains(&reason), "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains("task `tables`"), "{}", said.stderr);
    }
    assert_eq!(everything_in(dir.path()), before);
}

#[test]
fn a_run_of_any_task_cut_back_to_an_earlier_checkpoint_ends_bit_for_bit_the_same() {
    for small in &TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let more = ["train.checkpoint_every_steps=4", "train.keep_checkpoints=9"];
        let said = small.succeed(dir.path(), "train", &more);
        let run = dir.path().join(said.run_folder());
        let model = |run: &Path| tensors(&run.join("checkpoints/step-00000012/model.bpk"));
        let (unbroken, weights) = (metrics(&run), model(&run));
        for step in [6, 8, 12] {
            fs::remove_dir_all(run.join(format!("checkpoints/step-{step:08}"))).expect("removed");
        }
        fs::remove_file(run.join("summary.json")).expect("removed");
        let again = succeed(dir.path(), &["train", "--resume", run.to_str().expect("text")]);
        assert!(again.stderr.contains("resumed  after step 4"), "{}", again.stderr);
        assert_eq!(unbroken, metrics(&run), "{}", small.task);
        assert!(weights == model(&run), "{}: the resumed weights differ", small.task);
        assert_eq!(json(&said.stdout)["test"], json(&again.stdout)["test"]);
    }
}

#[test]
fn a_run_of_any_task_names_its_metrics_and_writes_them_everywhere() {
    for small in &TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let logs = ["log.csv=true", "log.tensorboard=true", "log.utilization=true"];
        let said = small.succeed(dir.path(), "train", &logs);
        let folder = said.run_folder();
        let run = dir.path().join(&folder);
        let read = |name: &str| json(&fs::read_to_string(run.join(name)).expect(name));
        let names = |value: &Value| -> Vec<String> {
            let fields = value.as_object().expect("an object").keys();
            fields
                .filter(|name| *name != "samples")
                .cloned()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect()
        };
        let expected: BTreeSet<String> =
            small.metrics.iter().map(|&name| name.to_owned()).collect();
        let expected: Vec<String> = expected.into_iter().collect();

        let schema = read("run.json");
        assert_eq!(schema["task"], small.task);
        let named = schema["metrics"].as_array().expect("a list").iter();
        let named: Vec<&str> = named.map(|metric| metric["name"].as_str().expect("text")).collect();
        assert_eq!(named, small.metrics);

        let summary = read("summary.json");
        assert_eq!(names(&summary["test"]), expected, "{summary}");
        assert_eq!(summary["test"]["samples"], small.test_samples);
        assert_eq!(json(&said.stdout)["test"], summary["test"]);
        let folder = folder.to_str().expect("text");
        let evaluated = succeed(dir.path(), &["eval", folder, "--json"]);
        assert_eq!(json(&evaluated.stdout), summary["test"], "{}", small.task);
        let lines = succeed(dir.path(), &["eval", folder]).stdout;
        assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");

        let csv = |name: &str| fs::read_to_string(run.join(name)).expect(name);
        let (steps, epochs) = (csv("steps.csv"), csv("epochs.csv"));
        let events = fs::read(run.join("tensorboard/events.out.tfevents.updraft")).expect("events");
        for name in small.metrics {
            for split in ["train", "test"] {
                let column = format!(",{split}.{name},");
                assert!(epochs.contains(&column), "`{column}` is missing: {epochs}");
            }
            let column =
                if *name == "loss" { ",loss,".to_owned() } else { format!(",metrics.{name},") };
            assert!(steps.contains(&column), "`{column}` is missing: {steps}");
            let tag = format!("epoch/test_{name}");
            assert!(events.windows(tag.len()).any(|found| found == tag.as_bytes()), "no {tag}");
        }

        let lines = metrics(&run);
        for line in &lines {
            assert!(line["peak_share"].as_f64() > Some(0.0), "{line}");
            if line["event"] == "step" {
                assert!(line["loss"].is_number(), "{line}");
                assert_eq!(names(&line["metrics"]), names_without_loss(&expected), "{line}");
            } else {
                assert_eq!(names(&line["train"]), expected, "{line}");
                assert_eq!(names(&line["test"]), expected, "{line}");
            }
        }
        assert_eq!(lines.last().expect("an epoch")["test"], summary["test"]);
    }
}

fn names_without_loss(names: &[String]) -> Vec<String> {
    names.iter().filter(|name| *name != "loss").cloned().collect()
}

#[test]
fn what_a_run_of_a_table_serves_scores_as_it_did_at_the_end() {
    let small = &TASKS[1];
    let averaged = ["train.ema_decay=0.9", "train.criterion=test-y-rmse", "train.keep_best=1"];
    let early = [
        "train.early_stop={ patience = 1 }",
        "train.criterion=test-y-r-squared",
        "train.epochs=40",
        "train.learning_rate=1.0",
    ];
    for sets in [&averaged[..], &early] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let said = small.succeed(dir.path(), "train", sets);
        let folder = said.run_folder();
        let evaluated = succeed(dir.path(), &["eval", folder.to_str().expect("text"), "--json"]);
        assert_eq!(json(&said.stdout)["test"], json(&evaluated.stdout), "{sets:?}");
        let stopped_early = said.stderr.contains("epochs stopped getting better");
        assert_eq!(stopped_early, sets == early, "{}", said.stderr);
    }
}

#[test]
fn the_page_of_a_run_shows_the_pictures_of_its_task() {
    let expected: [&[&str]; 5] = [
        &[
            "Confusion matrix of the test samples",
            "The most confident mistakes",
            " predicted as ",
            "<img src=\"data:image/png;base64,",
            "title=\"",
        ],
        &[
            "Predicted against true values",
            "Residuals of `y` on the test rows",
            "true y",
            "predicted y",
            "Coefficient of determination, R², of y",
            "Root mean squared error of y",
        ],
        &[
            "<img src=\"data:image/png;base64,",
            "input, ground truth, prediction",
            "Mean absolute error",
        ],
        &["Confusion matrix of `effect` on the test rows", "AUC of effect"],
        &[
            "<img src=\"data:image/png;base64,",
            "visible patches, prediction of the others, truth",
            "Mean squared error of predicting 0",
        ],
    ];
    for (small, expected) in TASKS.iter().zip(expected) {
        let dir = tempfile::tempdir().expect("temporary folder");
        let folder = small.succeed(dir.path(), "train", &["train.epochs=1"]).run_folder();
        succeed(dir.path(), &["report", folder.to_str().expect("text")]);
        let page = dir.path().join(&folder).join("report.html");
        let page = fs::read_to_string(page).expect("a page");
        for word in expected {
            assert!(page.contains(word), "{}: `{word}` is missing", small.task);
        }
        assert!(!page.contains("<script") && !page.contains("https:"), "it needs something else");
        let pictures = fs::read_to_string(dir.path().join(&folder).join("pictures.json"));
        let pictures = json(&pictures.expect("pictures"));
        if small.task == "image-classification" {
            let counts = pictures[0]["counts"].as_array().expect("rows").iter();
            let counts = counts.flat_map(|row| row.as_array().expect("a row").clone());
            assert_eq!(counts.filter_map(|count| count.as_u64()).sum::<u64>(), 40);
            let tiles = pictures[1]["tiles"].as_array().expect("tiles");
            assert_eq!(tiles.len(), 16, "an untrained network makes more mistakes than are shown");
            assert_eq!(page.matches("<img ").count(), 16);
        }
    }
}

#[test]
fn warming_up_flex_for_any_task_says_that_there_is_nothing_to_warm() {
    for small in &TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let said = small.succeed(dir.path(), "warm-up", &["device=flex"]);
        let value = json(&said.stdout);
        assert!(value["summary"].as_str().expect("text").contains("nothing to warm"), "{value}");
        assert!(value["step_s"].is_null(), "{value}");
    }
}

#[cfg(unix)]
#[test]
fn a_command_that_is_advised_begins_with_the_name_that_the_program_was_started_by() {
    use std::os::unix::process::CommandExt;

    for small in &TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let arguments = small.arguments("train", &["train.epochs=1"]);
        let mut command = updraft(dir.path(), &texts(&arguments));
        let said = said(command.arg0("/opt/mine").output().expect("the binary starts"));
        assert_eq!(said.code, 0, "{}", said.stderr);
        let folder = said.run_folder();
        let advice = format!("next     mine predict {} FILE", folder.display());
        assert!(said.stderr.contains(&advice), "{}", said.stderr);
        assert!(!said.stderr.contains("xtask"), "{}", said.stderr);
    }
    // No text of the program names the runner of this repository.
    let dir = tempfile::tempdir().expect("temporary folder");
    for command in commands() {
        let help = succeed(dir.path(), &[&command, "--help"]).stdout;
        assert!(!help.contains("xtask"), "{help}");
    }
    for Small { task, .. } in &TASKS {
        let keys = succeed(dir.path(), &["explain", "--keys", task]).stdout;
        assert!(!keys.contains("xtask"), "{keys}");
    }
}
