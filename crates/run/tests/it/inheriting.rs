//! Configurations that inherit: which file gives a value, and which task is chosen.

use std::fs;
use std::path::Path;

use updraft_run::{ConfigError, Plan, Planned, TASKS, origins};

/// Reads a text as that of `c.toml` in a folder.
fn read(folder: &Path, text: &str, sets: &[&str]) -> Result<Planned, ConfigError> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Plan::read(TASKS, text, &folder.join("c.toml"), &sets)
}

#[test]
fn the_nearest_file_that_names_a_task_decides() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let table = "task = \"tables\"\n";
    fs::write(dir.path().join("table.toml"), table).expect("written");
    fs::write(dir.path().join("plain.toml"), "seed = 1\n").expect("written");
    let of = |text: &str, sets: &[&str]| {
        read(dir.path(), text, sets).map(|planned| planned.plan.kind().name())
    };
    let (images, rows) = ("image-classification", "tables");
    assert_eq!(of("", &[]).expect("the default"), images);
    assert_eq!(of(table, &[]).expect("its own"), rows);
    let inherits = "inherit = [\"plain.toml\", \"table.toml\"]";
    assert_eq!(of(inherits, &[]).expect("inherited"), rows);
    let both = format!("{inherits}\ntask = \"image-classification\"");
    assert_eq!(of(&both, &[]).expect("its own first"), images);
    assert_eq!(of("", &["task=tables"]).expect("set"), rows);
    assert_eq!(of(table, &["task=image-classification"]).expect("set"), images);
    let error = of("task = \"chess\"", &[]).expect_err("unknown").to_string();
    assert!(
        error.ends_with(
            "c.toml:1: `task` is \"chess\"; it must be one of `image-classification`, \
             `image-to-image`, `masked-images`, `tables`"
        ),
        "{error}"
    );
}

#[test]
fn a_value_comes_from_the_nearest_file_and_an_error_names_that_file() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::create_dir(dir.path().join("profiles")).expect("made");
    let slow = "seed = 7\n[train]\nepochs = 20\nbatch = 16\n";
    fs::write(dir.path().join("profiles/slow.toml"), slow).expect("written");
    let text = "inherit = \"profiles/slow.toml\"\n[train]\nepochs = 5\n";
    let Planned { plan, settings } = read(dir.path(), text, &["train.batch=32"]).expect("valid");
    assert_eq!((plan.seed, plan.train.epochs, plan.train.batch), (7, 5, 32));
    let lines = origins(plan.table(), settings.layers(), settings.given());
    let origin = |key: &str| {
        let line = lines.iter().find(|(name, _, _)| name == key).expect("in the plan");
        line.2.rsplit('/').next().expect("a name").to_owned()
    };
    assert_eq!(origin("seed"), "slow.toml");
    assert_eq!(origin("train.epochs"), "file");
    assert_eq!(origin("train.batch"), "command line");
    assert_eq!(origin("train.learning_rate"), "default");

    let bad = "seed = 7\n[train]\nepochs = 0\nbatch = 16\n";
    fs::write(dir.path().join("profiles/slow.toml"), bad).expect("written");
    assert!(read(dir.path(), text, &[]).is_ok(), "the nearer file gives another value");
    let message = read(dir.path(), "inherit = \"profiles/slow.toml\"\n", &[]);
    let message = message.err().expect("no epochs").to_string();
    assert!(
        message.ends_with("slow.toml:3: `train.epochs` is 0; it must be at least 1"),
        "{message}"
    );
}

#[test]
fn a_file_that_is_missing_circular_or_no_path_is_refused() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let of = |text: &str| read(dir.path(), text, &[]).err().expect("refused");
    let missing = of("inherit = \"gone.toml\"");
    assert!(matches!(missing, ConfigError::Parent { .. }), "{missing}");
    let said = missing.to_string();
    assert!(said.contains("c.toml` inherits from `") && said.contains("gone.toml`, "), "{said}");
    fs::write(dir.path().join("c.toml"), "inherit = \"c.toml\"\n").expect("written");
    assert!(matches!(of("inherit = \"c.toml\""), ConfigError::Inherit { .. }));
    let number = of("seed = 1\ninherit = 3").to_string();
    assert!(number.contains("`inherit` is 3; it must be the path of a file"), "{number}");
    fs::write(dir.path().join("odd.toml"), "seed = 1\n[train]\nepoch = 3\n").expect("written");
    let unknown = of("inherit = \"odd.toml\"").to_string();
    assert!(unknown.contains("odd.toml:3: unknown key `train.epoch`"), "{unknown}");
}
