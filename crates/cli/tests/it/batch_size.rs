//! The largest batch that fits into memory.

use crate::command::{TASKS, json, run, succeed, texts, tiny};

/// A network whose step takes about 9 MiB an image; the peaks of two processes differ by 2.
const NETWORK: &[&str] = &[
    "--set",
    "model.channels=16",
    "--set",
    "model.stem_stride=1",
    "--set",
    "data.height=64",
    "--set",
    "data.width=64",
];

#[test]
#[cfg(target_os = "linux")]
fn the_batch_found_is_within_five_per_cent_of_the_largest_of_a_scan() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let budget = ["batch-find", "--budget-mib", "300", "--scan"];
    let said = succeed(dir.path(), &[&budget[..], NETWORK].concat());
    let found: serde_json::Value = serde_json::from_str(said.stdout.trim()).expect("JSON");
    let number = |name: &str| found[name].as_f64().expect(name);
    let (largest, scanned) = (number("largest"), number("largest_of_scan"));
    let too_large = number("too_large");
    // From 20 on a scan covers a size below and two above.
    assert!(largest >= 20.0 && too_large > largest, "{found}");
    assert!(too_large <= 1.05 * largest, "{found}");
    assert!((largest..=too_large).contains(&scanned), "{found}");
    assert!(number("batch") <= 0.9 * largest + 1.0, "no head-room: {found}");
    let last = largest as usize + largest as usize / 20 + 1;
    assert!(said.stderr.contains(&format!("batch {last:6}  too large")), "{}", said.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_trains_with_the_batch_it_found_and_keeps_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let auto = "train.auto_batch={least=4, most=30, head_room=0.0}";
    let said = succeed(dir.path(), &tiny(&["--set", auto]));
    // No machine that builds this lacks the memory for thirty small images.
    assert!(said.stderr.contains("batch    30: 30 fit into"), "{}", said.stderr);
    let plan = dir.path().join(said.run_folder()).join("plan.toml");
    let plan: toml::Table =
        toml::from_str(&std::fs::read_to_string(plan).expect("plan")).expect("TOML");
    assert_eq!(plan["train"]["batch"].as_integer(), Some(30));
    let run = said.run_folder();
    let again = succeed(dir.path(), &["train", "--resume", run.to_str().expect("text")]);
    assert!(!again.stderr.contains("batch    "), "{}", again.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn a_search_is_not_repeated_for_the_same_model_on_the_same_device() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let run = |seed: &str, more: &str| {
        let sets =
            ["train.batch=auto", "train.auto_batch.most=6", "train.auto_batch.budget_mib=9999"];
        let mut arguments = vec!["--set", seed, "--set", more];
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
        let said = succeed(dir.path(), &tiny(&arguments));
        let plan = dir.path().join(said.run_folder()).join("plan.toml");
        let plan: toml::Table =
            toml::from_str(&std::fs::read_to_string(plan).expect("plan")).expect("TOML");
        (said.stderr, plan["train"]["batch"].as_integer())
    };
    let again = "5: found by an earlier run, kept in runs/batch-sizes.json";
    let (first, batch) = run("seed=1", "train.epochs=1");
    assert!(first.contains("6 fit into 9999 MiB") && !first.contains(again), "{first}");
    let (second, same) = run("seed=2", "train.epochs=2");
    assert!(second.contains(again) && !second.contains("fit into"), "{second}");
    assert_eq!((batch, same), (Some(5), Some(5)));
    let (other, _) = run("seed=1", "train.ema_decay=0.9");
    assert!(other.contains("6 fit into") && !other.contains(again), "{other}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_batch_found_is_named_where_the_run_would_search_again() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let auto = "[train.auto_batch]\nleast = 2\nmost = 2\n";
    std::fs::write(dir.path().join("auto.toml"), auto).expect("written");
    let small = ["--set", "data.train_images=16", "--set", "data.test_images=16"];
    let said = succeed(dir.path(), &[&["batch-find", "auto.toml"][..], &small].concat());
    let next = "next     replace `train.auto_batch` by `train.batch = 2` in the config\n";
    assert!(said.stderr.ends_with(next), "{}", said.stderr);
    let set = ["--set", "train.auto_batch={ least = 2, most = 2 }"];
    let said = succeed(dir.path(), &[&["batch-find"][..], &small, &set].concat());
    let next = "train --set data.train_images=16 --set data.test_images=16 --set train.batch=2\n";
    assert!(said.stderr.ends_with(next), "{}", said.stderr);
    std::fs::write(dir.path().join("auto.toml"), "[train]\nbatch = \"auto\"\n").expect("written");
    let said = succeed(dir.path(), &[&["batch-find", "auto.toml"][..], &small].concat());
    assert!(said.stderr.ends_with("--set train.batch=14\n"), "{}", said.stderr);
}

/// What a run keeps beside its model is in the trial: a batch that fits without it may not with it.
#[test]
#[cfg(target_os = "linux")]
fn a_trial_holds_the_moving_average_too() {
    let dir = tempfile::tempdir().expect("temporary folder");
    // Wide layers and small batches: parameters outweigh activations.
    for class in ["a", "b", "c", "d"] {
        let folder = dir.path().join("mine").join(class);
        std::fs::create_dir_all(&folder).expect("created");
        for index in 0..160 {
            image::RgbImage::new(8, 8).save(folder.join(format!("{index}.png"))).expect("saved");
        }
    }
    let config = "[data]\nsource = \"folders\"\ndir = \"mine\"\nheight = 8\nwidth = 8\n\
                  [model]\nchannels = 96\nstem_stride = 2\n";
    std::fs::write(dir.path().join("c.toml"), config).expect("written");
    let largest = |more: &[&str]| {
        let budget = ["batch-find", "c.toml", "--budget-mib", "100"];
        let most = ["--set", "train.auto_batch={least=2, most=512, head_room=0.0}"];
        let said = run(dir.path(), &[&budget[..], &most, more].concat());
        if said.code != 0 {
            assert!(said.stderr.contains("does not fit into"), "{}", said.stderr);
            return 0;
        }
        let found: serde_json::Value = serde_json::from_str(said.stdout.trim()).expect("JSON");
        found["largest"].as_u64().expect("a number")
    };
    let plain = largest(&[]);
    let averaged = largest(&["--set", "train.ema_decay=0.99"]);
    assert!(plain >= 2, "nothing fits: the test has lost its point");
    assert!(averaged < plain, "{averaged} with an average, {plain} without");
}

#[test]
fn a_budget_that_nothing_fits_into_is_an_error() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = run(dir.path(), &["batch-find", "--budget-mib", "1"]);
    assert_eq!(said.code, 2);
    let expected = "a batch of 2 does not fit into 1 MiB, --budget-mib; give it more";
    assert!(said.stderr.contains(expected), "{}", said.stderr);
    let set = "train.auto_batch={ budget_mib = 1 }";
    let said = run(dir.path(), &["batch-find", "--set", set]);
    let expected = "does not fit into 1 MiB, `train.auto_batch.budget_mib`; give it more";
    assert!(said.stderr.contains(expected), "{}", said.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn no_batch_is_larger_than_the_training_data() {
    let small = &TASKS[1];
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut arguments = small.arguments("batch-find", &[]);
    arguments.extend(["--budget-mib", "2000", "--scan"].map(str::to_owned));
    let said = succeed(dir.path(), &texts(&arguments));
    let found = json(&said.stdout);
    assert_eq!(found["largest"], 120, "{found}");
    assert_eq!((&found["largest_of_scan"], &found["train_samples"]), (&120.into(), &120.into()));
    assert!(said.stderr.contains("found, all training samples"), "{}", said.stderr);
    let refused = run(
        dir.path(),
        &texts(&small.arguments("train", &["train.auto_batch={ least = 121, most = 200 }"])),
    );
    assert_eq!(refused.code, 2);
    let expected = "`train.auto_batch.least` is 121; it must be at most the number of training";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn the_batch_of_a_table_is_found_and_trained_with() {
    let small = &TASKS[1];
    let dir = tempfile::tempdir().expect("temporary folder");
    let auto = "train.auto_batch={ least = 4, most = 30, head_room = 0.0 }";
    let mut arguments = small.arguments("batch-find", &[auto]);
    // No process of this program takes as much for thirty rows.
    arguments.extend(["--budget-mib", "2000"].map(str::to_owned));
    let found = json(&succeed(dir.path(), &texts(&arguments)).stdout);
    assert_eq!(
        (found["batch"].as_u64(), found["largest"].as_u64()),
        (Some(30), Some(30)),
        "{found}"
    );
    *arguments.last_mut().expect("a budget") = "1".to_owned();
    let refused = run(dir.path(), &texts(&arguments));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("a batch of 4 does not fit into 1 MiB"), "{}", refused.stderr);

    let said = small.succeed(dir.path(), "train", &[auto]);
    assert!(said.stderr.contains("batch    30: 30 fit into"), "{}", said.stderr);
    let plan = dir.path().join(said.run_folder()).join("plan.toml");
    let plan: toml::Table =
        toml::from_str(&std::fs::read_to_string(plan).expect("plan")).expect("TOML");
    assert_eq!(plan["train"]["batch"].as_integer(), Some(30));
}
