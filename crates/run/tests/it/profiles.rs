//! Profiles: which values they replace, and which keys they may give.

use std::fs;
use std::path::Path;

use updraft_device::Backend;
use updraft_run::{
    ConfigError, Key, Keys, Plan, Planned, Profile, RecomputePlan, Settings, TASKS, WorkersPlan,
    origins,
};

/// Reads a text with a profile.
fn read(text: &str, sets: &[&str], profile: &str) -> Result<Planned, ConfigError> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let settings = Settings::load(text, Path::new("c.toml"), &sets)?;
    Plan::of(TASKS, settings.with_profile(Profile::open(profile)?))
}

/// The error of a profile in a file with this text.
fn refused(text: &str) -> String {
    let dir = tempfile::tempdir().expect("temporary folder");
    let path = dir.path().join("own.toml");
    fs::write(&path, text).expect("written");
    read("", &[], path.to_str().expect("text")).err().expect("refused").to_string()
}

#[test]
fn a_profile_replaces_the_values_of_a_file_and_not_those_of_the_command_line() {
    let text = "train.workers = 3\ntrain.epochs = 2\n[train.schedule]\nkind = \"constant\"\n";
    let Planned { plan, settings } = read(text, &[], "low-memory").expect("valid");
    assert_eq!(plan.train.workers, WorkersPlan::Count(0));
    assert_eq!((plan.train.recompute, plan.train.epochs), (RecomputePlan::ElementWise, 2));
    let lines = origins(plan.table(), settings.layers(), settings.given());
    let origin = |key: &str| {
        let line = lines.iter().find(|(name, ..)| name == key).expect("in the plan");
        line.2.clone()
    };
    assert_eq!(origin("train.workers"), "profile low-memory");
    assert_eq!(origin("train.epochs"), "file");

    let Planned { plan, settings } = read(text, &["train.workers=2"], "low-memory").expect("valid");
    assert_eq!(plan.train.workers, WorkersPlan::Count(2));
    let lines = origins(plan.table(), settings.layers(), settings.given());
    let line = lines.iter().find(|(name, ..)| name == "train.workers").expect("in the plan");
    assert_eq!(line.2, "command line");
}

#[test]
fn every_profile_fits_every_task_and_what_a_task_does_not_read_is_named() {
    for kind in TASKS {
        for profile in Profile::NAMES {
            let planned = read(kind.trial(), &[], profile);
            let planned =
                planned.unwrap_or_else(|error| panic!("{} {profile}: {error}", kind.name()));
            let again = Plan::read(TASKS, &planned.plan.to_toml(), Path::new("plan.toml"), &[]);
            let again = again.expect("a plan reads as itself");
            assert_eq!(again.plan.table(), planned.plan.table());
        }
    }
    let unused = |text: &str| {
        let planned = read(text, &[], "low-memory").expect("valid");
        let keys = planned.settings.unused_keys();
        keys.into_iter().map(|it| format!("{}: {}", it.key, it.reason)).collect::<Vec<_>>()
    };
    assert_eq!(unused(""), ["data.memory_mib: the task has no such key"]);
    assert_eq!(unused("task = \"image-to-image\""), ["data.cache: the task has no such key"]);
}

#[test]
fn a_key_that_is_not_read_is_left_out_of_a_profile_and_refused_in_a_file() {
    const WORKERS: Key<String> = Key::new("train.workers", "not read").performance();
    const KEYS: Keys = &[&WORKERS];
    let settings = |text: &str| {
        let settings = Settings::load(text, Path::new("c.toml"), &[]).expect("TOML");
        let profile = Profile::open("default").expect("a profile");
        settings.with_profile(profile).with_keys(vec![KEYS], &[]).expect("known keys")
    };
    let of_profile = settings("");
    assert_eq!(of_profile.finish().expect("left out"), toml::Table::new());
    let unused = of_profile.unused_keys();
    let last = unused.last().expect("a key");
    assert_eq!((last.key.as_str(), unused.len()), ("train.workers", 6));
    assert!(last.reason.starts_with("it is not read beside"), "{last:?}");
    let refused = settings("train.workers = \"auto\"").finish();
    assert!(matches!(refused, Err(ConfigError::Unread { .. })), "{refused:?}");
}

#[test]
fn a_gpu_reads_twenty_updates_together_unless_each_step_is_measured() {
    let of =
        |sets: &[&str], backend| read("", sets, "default").expect("valid").plan.read_every(backend);
    assert_eq!([Backend::Flex, Backend::CubeclCpu].map(|backend| of(&[], backend)), [1, 1]);
    assert_eq!([Backend::Cuda, Backend::Vulkan].map(|backend| of(&[], backend)), [20, 20]);
    for (set, expected) in [
        ("train.timing=done", 1),
        ("log.utilization=true", 1),
        ("train.read_every=1", 1),
        ("train.read_every=7", 7),
        ("train.read_every=auto", 20),
    ] {
        assert_eq!(of(&[set], Backend::Cuda), expected, "{set}");
    }
    let sets = ["train.read_every=7", "train.timing=done"];
    assert_eq!(of(&sets, Backend::Cuda), 7);
}

#[test]
fn keys_of_the_plan_without_effect_on_the_device_are_named() {
    let sets = ["train.timing=done", "train.read_every=8"];
    let plan = |profile: &str| read("", &sets, profile).expect("valid").plan;
    let keys = |plan: &Plan, backend: Backend| {
        plan.unused_on(backend).into_iter().map(|it| it.key).collect::<Vec<_>>()
    };
    let fast = plan("throughput");
    assert_eq!(keys(&fast, Backend::Flex), ["train.transfer", "train.timing", "train.read_every"]);
    assert_eq!(keys(&fast, Backend::Cuda), [""; 0]);
    assert_eq!(keys(&plan("default"), Backend::Flex), ["train.timing", "train.read_every"]);
}

#[test]
fn a_profile_with_other_keys_than_those_of_performance_is_refused() {
    for (text, words) in [
        ("[train]\nworkers = 1\nclip_norm = 1.0\n", "own.toml:3: `train.clip_norm` changes more"),
        ("seed = 3\n", "own.toml:1: `seed` changes more"),
        (
            "[train]\nworker = 1\n",
            "own.toml:2: unknown key `train.worker`; known here are `data.cache`",
        ),
        ("inherit = \"a.toml\"\n", "own.toml:1: `inherit` changes more"),
        ("[train\n", "own.toml:1: "),
        ("[train]\nworkers = -1\n", "own.toml:2: `train.workers` is -1; it must be"),
    ] {
        let said = refused(text);
        assert!(said.contains(words), "{text}: {said}");
    }
    let said = read("", &[], "fast").err().expect("no such profile").to_string();
    let known = "there is no profile `fast`: it is not the path of a .toml file; the profiles are \
                 `default`, `throughput`, `low-memory`, or name a .toml file";
    assert_eq!(said, known);
    let said = read("", &[], "gone.toml").err().expect("no such file").to_string();
    assert!(said.starts_with("there is no profile `gone.toml`: No such file"), "{said}");
}
