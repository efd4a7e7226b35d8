//! Keys that are given and not read: the error names the key that decides, with its value.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Value;
use updraft_run::{AnyKey, ConfigError, Plan, TASKS, TaskKind};

use crate::plans::{ROWS, table};

/// What becomes of a key that is given a value of no key's type.
#[derive(Debug, PartialEq)]
enum Met {
    Read,
    /// Beside this key.
    Unread(String),
    /// The plan is refused for another reason.
    Other,
}

/// What is tried for a key that the others require.
const FILLERS: [&str; 3] = ["x", "['f']", "{x={kind='number'}}"];

/// Reads the trial of a task with settings and a key; what the settings require is given.
fn meet(kind: &dyn TaskKind, sets: &[String], key: &str) -> Met {
    let odd = format!("{key}=[[{{x=1}}]]");
    // The keys that are required, with the number of the filler.
    let mut given: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        let filled = given.iter().map(|(key, at)| format!("{key}={}", FILLERS[*at]));
        let all: Vec<String> = filled.chain(sets.to_vec()).chain([odd.clone()]).collect();
        match Plan::read(TASKS, kind.trial(), Path::new("c.toml"), &all).map(drop) {
            Ok(()) => return Met::Read,
            Err(ConfigError::Missing { key, .. }) if !given.contains_key(key) => {
                given.insert(key.to_owned(), 0);
            }
            Err(ConfigError::Value { key: refused, .. }) if refused.starts_with(key) => {
                return Met::Read;
            }
            Err(ConfigError::Value { key: refused, .. }) => match given.get_mut(&refused) {
                Some(at) if *at + 1 < FILLERS.len() => *at += 1,
                _ => return Met::Other,
            },
            Err(ConfigError::Unread { key: unread, beside, .. }) if unread == key => {
                let (decider, _) = beside[1..].split_once(" = ").expect("a key and a value");
                return Met::Unread(decider.to_owned());
            }
            Err(_) => return Met::Other,
        }
    }
}

/// The words that a key takes, if it is one of a few.
fn words(key: &dyn AnyKey) -> Vec<String> {
    let fault = key.fault(&Value::String("?".to_owned())).unwrap_or_default();
    if !fault.starts_with("unknown variant ") {
        return Vec::new();
    }
    let expected = fault.split_once("expected ").map_or("", |(_, words)| words);
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// For each key that some configuration does not read, another value of the key that the error
/// names makes it read, beside the same other settings.
#[test]
fn the_key_that_an_error_names_decides_whether_the_other_is_read() {
    for kind in TASKS {
        let keys: Vec<&dyn AnyKey> = kind.keys().iter().copied().flatten().copied().collect();
        let named: Vec<&str> = keys.iter().flat_map(|key| key.decided_by()).copied().collect();
        let decides = |key: &dyn AnyKey| {
            let is_usual = [".kind", ".source"].iter().any(|end| key.name().ends_with(end));
            is_usual || named.contains(&key.name())
        };
        let choices: BTreeMap<&str, Vec<String>> =
            keys.iter().filter(|key| decides(**key)).map(|key| (key.name(), words(*key))).collect();
        let single = choices
            .iter()
            .flat_map(|(key, words)| words.iter().map(move |word| vec![format!("{key}={word}")]));
        let single: Vec<Vec<String>> = single.collect();
        let of_one_key =
            |a: &str, b: &str| a.split_once('=').unzip().0 == b.split_once('=').unzip().0;
        let pairs = single.iter().enumerate().flat_map(|(at, a)| {
            let later = single[at + 1..].iter().filter(|b| !of_one_key(&a[0], &b[0]));
            later.map(|b| [&a[..], b].concat())
        });
        let settings: Vec<Vec<String>> =
            [Vec::new()].into_iter().chain(single.clone()).chain(pairs).collect();
        for key in &keys {
            let mut witnessed: BTreeMap<String, bool> = BTreeMap::new();
            for sets in &settings {
                let Met::Unread(decider) = meet(*kind, sets, key.name()) else { continue };
                let others = choices.get(decider.as_str()).map_or(&[][..], Vec::as_slice);
                let mut others = others.iter().map(|word| format!("{decider}={word}"));
                let is_read = witnessed.get(&decider).copied().unwrap_or(false)
                    || others.any(|other| {
                        let sets = [&sets[..], &[other]].concat();
                        meet(*kind, &sets, key.name()) == Met::Read
                    });
                witnessed.insert(decider, is_read);
            }
            for (decider, is_read) in witnessed {
                assert!(
                    is_read,
                    "{}: `{}` is said to be decided by `{decider}`, whose values change nothing",
                    kind.name(),
                    key.name()
                );
            }
        }
    }
}

#[test]
fn a_key_that_a_normalization_or_a_target_does_not_read_names_it_with_its_value() {
    let cells = "task = \"image-to-image\"\n";
    for (text, key, beside) in [
        (cells, "model.groups=4", "`model.normalization = \"instance\"`"),
        (cells, "data.noise=0.1", "`data.target = \"labels\"`"),
        (cells, "data.scale_target.kind=unit", "`data.target = \"labels\"`"),
        (
            "task = \"image-to-image\"\ndata.labels = \"foreground\"\n",
            "data.classes=3",
            "`data.labels = \"foreground\"`",
        ),
        (
            "task = \"image-to-image\"\ndata.target = \"input\"\n",
            "data.classes=3",
            "`data.target = \"input\"`",
        ),
        (
            "task = \"image-to-image\"\ndata.target = \"input\"\n",
            "model.activation=sigmoid",
            "`data.target = \"input\"`",
        ),
        (
            "data.source = \"folders\"\ndata.test = \"t\"\n",
            "data.test_fraction=0.1",
            "`data.test = \"t\"`",
        ),
        (
            "data.source = \"archives\"\ndata.train = \"a\"\ndata.test = \"t\"\n",
            "data.test_fraction=0.1",
            "`data.source = \"archives\"`",
        ),
        ("", "data.test_fraction=0.1", "`data.source = \"generated\"`"),
        (&table("data.source = \"formula\""), "data.folds=5", "`data.source = \"formula\"`"),
        (&format!("{ROWS}test_fraction = 0.1"), "data.folds=5", "`data.folds = 5`"),
    ] {
        let error = Plan::read(TASKS, text, Path::new("c.toml"), &[key.to_owned()]);
        let error = error.map(drop).expect_err(key).to_string();
        let expected = format!("is not read beside {beside}; leave it out or change that");
        assert!(error.ends_with(&expected), "{text}{key}: {error}");
    }
}

#[test]
fn a_setting_that_only_the_model_lacks_names_the_key_of_the_model() {
    let cells = "task = \"image-to-image\"\ntrain.recompute_batch_norms = 3\n";
    let read = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
        Plan::read(TASKS, cells, Path::new("c.toml"), &sets).map(drop)
    };
    let error = read(&[]).expect_err("instance norms").to_string();
    let expected = "`train.recompute_batch_norms` is 3; it must be left out with \
                    `model.normalization = \"instance\"`: its model has no batch norms";
    assert_eq!(error, format!("c.toml:2: {expected}"));
    read(&["model.normalization=batch"]).expect("what the error names, changed");
}
