//! A config with different settings on the same seeds.

use std::fs;

use crate::command::{TASKS, TINY, json, run, succeed, texts};

#[test]
fn arms_are_compared_seed_by_seed_and_what_is_there_is_not_trained_again() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), "name = \"c\"\n").expect("written");
    let mut arguments = vec!["compare", "c.toml", "--seeds", "2"];
    arguments.extend(&TINY[1..]);
    arguments.extend(["--profile", "throughput"]);
    arguments.extend(["--arm", "train.workers=0", "--arm", "train.workers=1"]);
    arguments.extend(["--arm", "train.epochs=15 data.cue=color"]);
    let said = succeed(dir.path(), &arguments);
    let value: serde_json::Value =
        serde_json::from_str(said.stdout.lines().last().expect("a line")).expect("JSON");
    let arms = value["arms"].as_array().expect("a list");
    // The number of workers changes no bit.
    assert_eq!(value["metric"], "accuracy", "that of the criterion");
    for arm in &arms[..2] {
        assert_eq!(arm["difference"], 0.0, "{value}");
        assert_eq!(arm["standard_error"], 0.0, "{value}");
        assert_eq!(arm["outcome"], "within-band", "{value}");
    }
    assert!(arms[2]["values"] != arms[0]["values"], "{value}");
    assert!(said.stdout.contains("within the band"), "{}", said.stdout);
    let words = said.stdout.lines().filter(|line| !line.starts_with('{'));
    assert!(words.into_iter().all(|line| line.chars().count() <= 80), "{}", said.stdout);

    let runs = || fs::read_dir(dir.path().join("runs/compare/arm-1-seed-2")).expect("runs").count();
    // One run, and what it is made of.
    assert_eq!(runs(), 2);
    let of_arm = fs::read_dir(dir.path().join("runs/compare/arm-1-seed-2")).expect("runs");
    let mut plans =
        of_arm.flatten().filter_map(|it| fs::read_to_string(it.path().join("plan.toml")).ok());
    let plan = plans.next().expect("a plan");
    assert!(plan.contains("transfer = \"ahead\""), "of the profile: {plan}");
    assert!(said.stderr.contains("--profile throughput"), "{}", said.stderr);
    let again = succeed(dir.path(), &arguments);
    assert_eq!((again.stdout, runs()), (said.stdout, 2));
    // Other settings are never taken for these.
    let last = arguments.len() - 1;
    arguments[last] = "train.epochs=16 data.cue=color";
    let other = run(dir.path(), &arguments);
    assert_eq!(other.code, 2);
    let expected = "has runs with another `train.epochs` (15, here 16)";
    assert!(other.stderr.contains(expected), "{}", other.stderr);
}

#[test]
fn a_bad_arm_is_named_before_anything_is_trained() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), "name = \"c\"\n").expect("written");
    let arms = ["--arm", "precision=f32", "--arm", "precision=f12"];
    let said = run(dir.path(), &[&["compare", "c.toml"][..], &arms].concat());
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("--arm precision=f12") && said.stderr.contains("bf16-mixed"));
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn tables_are_compared_by_the_metric_that_is_named() {
    let small = &TASKS[1];
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut arguments = small.arguments("compare", &[]);
    for more in ["--seeds", "2", "--arm", "train.workers=0", "--arm", "model.hidden=[2]"] {
        arguments.push(more.to_owned());
    }
    let by_loss = succeed(dir.path(), &texts(&arguments)).stdout;
    assert_eq!(json(by_loss.lines().last().expect("a line"))["metric"], "loss");
    // The runs are there: the same comparison by another metric trains nothing.
    arguments.extend(["--metric", "y-rmse"].map(str::to_owned));
    let by_rmse = succeed(dir.path(), &texts(&arguments)).stdout;
    let value = json(by_rmse.lines().last().expect("a line"));
    assert_eq!(
        (&value["metric"], value["arms"][0]["difference"].as_f64()),
        (&"y-rmse".into(), Some(0.0))
    );
    for (arm, seed) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        let folder = dir.path().join(format!("runs/compare/arm-{}-seed-{seed}", arm + 1));
        let mut runs = fs::read_dir(folder).expect("runs").map(|run| run.expect("a run").path());
        let run = runs.find(|path| path.is_dir()).expect("one run");
        assert!(!runs.any(|path| path.is_dir()), "trained twice");
        let summary = json(&fs::read_to_string(run.join("summary.json")).expect("a summary"));
        assert_eq!(value["arms"][arm]["values"][seed - 1], summary["test"]["y-rmse"]);
    }
    *arguments.last_mut().expect("a metric") = "accuracy".to_owned();
    let refused = run(dir.path(), &texts(&arguments));
    assert_eq!(refused.code, 2);
    let expected = "--metric is `accuracy`; it must be one of `loss`, `y-mae`, `y-rmse`";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert!(!refused.stderr.contains("--arm"), "no arm is at fault: {}", refused.stderr);
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_trained() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), "name = \"c\"\n").expect("written");
    for (more, expected) in [
        (&["--arm", "precision=f32"][..], "there is one --arm; name at least two"),
        (&["--arm", " ", "--arm", "precision=f32"], "an --arm is empty"),
        (
            &["--arm", "precision=f32", "--arm", "train.epochs=2", "--seeds", "0"],
            "--seeds is 0; it must be 1 to 1000",
        ),
        (
            &[
                "--arm",
                "precision=f32",
                "--arm",
                "train.epochs=2",
                "--seeds",
                "18446744073709551615",
            ],
            "--seeds is 18446744073709551615; it must be 1 to 1000",
        ),
        (
            &["--arm", "precision=f32", "--arm", "train.bogus=2"],
            "error: --arm train.bogus=2: unknown key `train.bogus`",
        ),
        (&["--arm", "precision=f32", "--arm", "bogus"], "error: `--arm bogus` is not of the form"),
        (
            &["--arm", "precision=f32", "--arm", "train.epochs=2", "--set", "train.bogus=2"],
            "--set train.bogus=2: unknown key `train.bogus`",
        ),
        (&["--arm", "seed=3", "--arm", "precision=f32"], "`seed=3` cannot be set here"),
        (
            &["--arm", "precision=f32", "--arm", "train.epochs=2", "--set", "seed = 3"],
            "cannot be set here: every arm is trained with the seeds 1, 2, ... of --seeds",
        ),
    ] {
        for dry in [&["--dry-run"][..], &[]] {
            let said = run(dir.path(), &[&["compare", "c.toml"][..], more, dry].concat());
            assert_eq!(said.code, 2, "{more:?}: {}", said.stdout);
            assert!(said.stderr.contains(expected), "{more:?}: {}", said.stderr);
        }
    }
    let quoted = ["--arm", "data.cue=\"color\" train.schedule={ kind = \"constant\" }"];
    let plain = ["--arm", "data.cue=both"];
    let said =
        succeed(dir.path(), &[&["compare", "c.toml", "--dry-run"][..], &quoted, &plain].concat());
    assert!(said.stdout.contains("schedule]\nkind = \"constant\""), "{}", said.stdout);
    fs::write(dir.path().join("taken"), "a file").expect("written");
    let arms = ["--arm", "train.epochs=1", "--arm", "train.epochs=2", "--runs", "taken/below"];
    let said = run(dir.path(), &[&["compare", "c.toml"][..], &arms].concat());
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stderr.contains("cannot create `taken/below"), "{}", said.stderr);
}
