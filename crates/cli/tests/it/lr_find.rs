//! Range tests of learning rates.

use std::fs;

use crate::command::{TASKS, json, run, succeed, texts};

#[test]
fn a_range_test_of_any_task_suggests_a_learning_rate_and_plots_the_loss() {
    for small in &TASKS {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut arguments = small.arguments("lr-find", &[]);
        let said = succeed(dir.path(), &texts(&arguments));
        let rate = json(&said.stdout)["learning_rate"].as_f64().expect("a suggestion");
        assert!((1e-4..1.0).contains(&rate), "{}: {rate}", small.task);
        let page = fs::read_to_string(dir.path().join("lr-find.html")).expect("a page");
        assert!(page.contains("Loss over the learning rate") && !page.contains("<script"));
        assert!(!dir.path().join("runs").exists(), "a range test leaves no run");

        // Rates at which nothing is learned have no fall: an error, and the page all the same.
        fs::remove_file(dir.path().join("lr-find.html")).expect("removed");
        let flat = ["--from", "1e-9", "--to", "1e-8", "--steps", "60"].map(str::to_owned);
        let said = run(dir.path(), &texts(&[&arguments[..], &flat].concat()));
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
        assert!(
            said.stderr.contains("the loss never falls clearly from --from "),
            "{}",
            said.stderr
        );
        assert!(dir.path().join("lr-find.html").exists());

        // Only a page of an earlier search is replaced, if it is named.
        fs::write(dir.path().join("lr-find.html"), "the first").expect("written");
        run(dir.path(), &texts(&[&arguments[..], &flat].concat()));
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect("a page");
        assert_eq!(read("lr-find.html"), "the first");
        assert!(read("lr-find-2.html").contains("Loss over the learning rate"));
        let named = |page: &str| {
            let named = ["--page", page].map(str::to_owned);
            run(dir.path(), &texts(&[&arguments[..], &flat, &named].concat()))
        };
        let refused = named("lr-find.html");
        let expected = "`lr-find.html` exists and was not written by `lr-find`";
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
        assert_eq!(read("lr-find.html"), "the first");
        let replaced = named("lr-find-2.html");
        assert!(replaced.stderr.contains("the loss never falls"), "{}", replaced.stderr);

        arguments.extend(["--from", "50", "--to", "30"].map(str::to_owned));
        let said = run(dir.path(), &texts(&arguments));
        assert_eq!(said.code, 2);
        assert!(said.stderr.contains("--to is 30; it must be "), "{}", said.stderr);
    }
}

#[test]
fn the_quickstart_finds_a_learning_rate_near_its_own_with_any_seed() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for seed in ["seed=1", "seed=2", "seed=3"] {
        let said = succeed(dir.path(), &["lr-find", "--set", seed]);
        let rate = json(&said.stdout)["learning_rate"].as_f64().expect("a suggestion");
        assert!((1e-3..1e-1).contains(&rate), "{seed}: {rate}");
    }
}
