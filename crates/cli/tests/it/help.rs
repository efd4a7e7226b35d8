//! Help, plans and tables.

use crate::command::{config, run, succeed};

#[test]
fn every_help_page_fits_eighty_columns() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for arguments in [
        &["--help"][..],
        &["train", "--help"],
        &["eval", "--help"],
        &["predict", "--help"],
        &["probe", "--help"],
        &["explain", "--help"],
        &["lr-find", "--help"],
        &["tune", "--help"],
        &["compare", "--help"],
        &["batch-find", "--help"],
        &["warm-up", "--help"],
        &["quantize", "--help"],
        &["pipeline", "--help"],
        &["tasks", "--help"],
        &["report", "--help"],
        &["validate", "--help"],
        &["compare-options", "--help"],
        &["batch-sweep", "--help"],
        &["tune-performance", "--help"],
        &["scale-estimate", "--help"],
        &["launch", "--help"],
        &["verify", "--help"],
    ] {
        let said = succeed(dir.path(), arguments);
        assert!(said.stdout.contains("Usage:"), "{}", said.stdout);
        for line in said.stdout.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
        }
    }
}

#[test]
fn a_mistyped_command_is_answered_with_the_nearest() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = run(dir.path(), &["trian"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("train"), "{}", said.stderr);
}

#[test]
fn a_dry_run_prints_a_plan_that_is_itself_a_plan() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["train", "--dry-run", "--set", "train.epochs=7"]);
    let plan: toml::Table = toml::from_str(&said.stdout).expect("TOML");
    assert_eq!(plan["train"]["epochs"].as_integer(), Some(7));
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn explain_names_who_chose_each_value() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["explain", "--set", "train.epochs=7"]);
    let line = |key: &str| {
        said.stdout
            .lines()
            .find(|line| line.starts_with(key))
            .map(str::to_owned)
            .unwrap_or_default()
    };
    assert!(line("train.epochs").contains("command line"), "{}", said.stdout);
    assert!(line("train.batch").contains("file"), "{}", said.stdout);
    assert!(line("train.label_smoothing").contains("default"), "{}", said.stdout);
}

#[test]
fn a_config_inherits_from_each_recipe_and_explain_names_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for (recipe, key) in
        [("stable-training", "train.clip_norm"), ("early-accuracy", "train.ema_decay")]
    {
        let recipe = config(&format!("recipes/{recipe}.toml"));
        let config = dir.path().join("c.toml");
        let text = format!("inherit = {recipe:?}\n[train]\nepochs = 7\n");
        std::fs::write(&config, text).expect("written");
        let config = config.to_str().expect("text");
        let said = succeed(dir.path(), &["explain", config, "--set", "seed=3"]);
        let line = |key: &str| {
            let mut lines = said.stdout.lines();
            lines.find(|line| line.starts_with(key)).unwrap_or_default().to_owned()
        };
        assert!(line(key).contains(&recipe), "{}", said.stdout);
        assert!(line("train.epochs").contains(" file "), "{}", said.stdout);
        assert!(line("seed").contains("command line"), "{}", said.stdout);
        assert!(line("train.batch").contains("default"), "{}", said.stdout);
        succeed(dir.path(), &["train", config, "--dry-run"]);
    }
}

#[test]
fn explain_stays_within_eighty_columns() {
    let dir = tempfile::tempdir().expect("temporary folder");
    for name in ["adult.toml", "cifar10.toml", "kan-wine.toml"] {
        let said = succeed(dir.path(), &["explain", &config(name)]);
        for line in said.stdout.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

#[test]
fn probe_lists_flex_in_eighty_columns_or_as_json() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let said = succeed(dir.path(), &["probe"]);
    assert!(said.stdout.contains("flex"), "{}", said.stdout);
    for line in said.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let said = succeed(dir.path(), &["probe", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert!(value["version"].is_number(), "{value}");
}

#[test]
fn what_commands_print_fits_eighty_columns() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let wine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/kan-wine.toml");
    for arguments in [
        &["explain", wine][..],
        &["verify"],
        &["tasks"],
        &["train", "--set", "precision=bf16-mixed", "--set", "train.epochs=1"],
        &["train", "--set", "train.auto_batch={ budget_mib = 99999 }", "--set", "train.epochs=1"],
    ] {
        let said = succeed(dir.path(), arguments);
        let lines = said.stdout.lines().chain(said.stderr.lines());
        // An address is one word, and a next command stays on one line so that it can be copied.
        let is_long = |line: &&str| {
            line.starts_with('{') || line.contains("://") || line.starts_with("next     ")
        };
        for line in lines.filter(|line| !is_long(line)) {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line}");
            assert!(!line.contains(" 1 epochs"), "{line}");
        }
    }
}

/// With `UPDATE_EXPECT=1` in the environment the page is written instead.
#[test]
fn the_page_of_the_configs_has_the_keys_as_explain_prints_them() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let path =
        std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/README.md"));
    let page = std::fs::read_to_string(path).expect("the page");
    let mut expected = page.clone();
    for task in ["image-classification", "image-to-image", "masked-images", "tables"] {
        let printed = succeed(dir.path(), &["explain", "--keys", task]).stdout;
        let mark = format!("<!-- what `cargo xtask explain --keys {task}` prints -->\n\n");
        let start = expected.find(&mark).expect("a mark before the table") + mark.len();
        // The last one ends with the page.
        let after = expected[start..].find("\n\n");
        let end = after.map_or(expected.len(), |at| start + at + 1);
        expected.replace_range(start..end, &printed);
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &expected).expect("the page is ours");
    } else {
        let what = "a table of configs/README.md is not what `explain --keys` prints; \
                    UPDATE_EXPECT=1 cargo xtask test writes it";
        assert!(page == expected, "{what}");
    }
}

#[test]
fn the_page_of_the_configs_has_a_row_for_every_file_and_for_nothing_else() {
    let configs = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs"));
    let page = std::fs::read_to_string(configs.join("README.md")).expect("the page");
    let first_cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let named: Vec<String> = first_cells
        .flat_map(|cell| cell.split(',').map(|name| name.replace('`', "").trim().to_owned()))
        .filter(|name| name.ends_with(".toml"))
        .collect();
    let mut expected = Vec::new();
    for prefix in ["", "profiles/", "recipes/"] {
        for entry in std::fs::read_dir(configs.join(prefix)).expect("configs").flatten() {
            let name = entry.file_name().into_string().expect("text");
            if name.ends_with(".toml") {
                expected.push(format!("{prefix}{name}"));
            }
        }
    }
    for name in &expected {
        assert!(named.contains(name), "`{name}` has no row in configs/README.md");
    }
    for name in &named {
        assert!(
            expected.contains(name),
            "configs/README.md has a row for `{name}`, which is nothing"
        );
    }
}

#[test]
fn commands_without_a_run_end_by_naming_the_next_one() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let [formula, wine] = ["kan-quickstart.toml", "kan-wine.toml"].map(config);
    for (arguments, next) in [
        (&["probe"][..], "verify".to_owned()),
        (&["tasks"], "explain --keys image-classification".to_owned()),
        (&["explain", "--keys", "tables"], "explain CONFIG".to_owned()),
        (&["explain", &formula, "--set", "seed=3"], format!("train {formula} --set seed=3")),
        // Its data is in files.
        (&["explain", &wine, "--set", "seed=3"], format!("train {wine} --data DIR --set seed=3")),
    ] {
        let said = succeed(dir.path(), arguments);
        let last = said.stderr.lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("next     ") && last.ends_with(&next), "{arguments:?}: {last}");
    }
    let said = succeed(dir.path(), &["probe", "--json"]);
    assert!(!said.stderr.contains("next     "), "{}", said.stderr);
    let cifar10 = config("cifar10.toml");
    for name in ["train", "test"] {
        std::fs::write(dir.path().join(format!("{name}.tar.gz")), "").expect("written");
    }
    let said = succeed(dir.path(), &["explain", &cifar10, "--set", "data.dir='.'"]);
    assert!(!said.stderr.contains("--data"), "{}", said.stderr);
}
