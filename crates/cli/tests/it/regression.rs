//! Numbers learned from the rows of tables: whole runs, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{metrics, run, succeed};

fn config(name: &str) -> String {
    format!("{}/../../configs/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).expect("JSON")
}

/// Arguments with a `--set` before each setting.
fn with_sets<'a>(arguments: &[&'a str], sets: &[&'a str]) -> Vec<&'a str> {
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    arguments.iter().copied().chain(sets).collect()
}

/// `y = 2a − b` on a lattice, in two files of which the second adds 100; one `a` is missing.
fn two_files(dir: &Path) -> PathBuf {
    for (name, more) in [("one.csv", 0.0), ("two.csv", 100.0)] {
        let rows = (0..60).map(|at| (f64::from(at % 10), f64::from(at / 10)));
        let lines = rows.map(|(a, b)| {
            let seen = if (a, b) == (4.0, 4.0) { "?".to_owned() } else { a.to_string() };
            format!("{seen};{};red;{b}\n", 2.0 * a - b + more)
        });
        let text = "a;y;color;b\n".to_owned() + &lines.collect::<String>();
        fs::write(dir.join(name), text).expect("written");
    }
    let text = "task = \"tabular-regression\"\n[data]\nsource = \"files\"\n\
                files = [\"one.csv\", \"two.csv\"]\ndelimiter = \"semicolon\"\n\
                features = [\"a\", \"b\"]\ntarget = \"y\"\nfile_features = true\n\
                [train]\nepochs = 3\nbatch = 16\n";
    fs::write(dir.join("c.toml"), text).expect("written");
    dir.join("c.toml")
}

#[test]
fn the_quickstart_of_splines_learns_the_formula() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let quickstart = config("kan-quickstart.toml");
    let said = succeed(dir.path(), &with_sets(&["train", &quickstart], &["train.epochs=20"]));
    let told = json(&said.stdout);
    // The values deviate by 0.76; a perceptron of as many parameters is at 0.06.
    assert!(told["test_rmse"].as_f64().expect("a score") < 0.05, "{told}");
    assert!(told["test"]["r_squared"].as_f64().expect("a score") > 0.99, "{told}");
    let run = dir.path().join(said.run_folder());
    for name in [
        "plan.toml",
        "scaling.json",
        "environment.json",
        "metrics.jsonl",
        "summary.json",
        "log.jsonl",
    ] {
        assert!(run.join(name).is_file(), "{name} is missing in {}", run.display());
    }
    assert!(
        said.stderr.contains("kan 2-8-1, ") && said.stderr.contains("rows/s"),
        "{}",
        said.stderr
    );
    assert!(!said.stderr.contains("acc "), "{}", said.stderr);

    let folder = run.to_str().expect("text");
    let evaluated = json(&succeed(dir.path(), &["eval", folder, "--json"]).stdout);
    assert_eq!(evaluated["r_squared"], told["test"]["r_squared"]);
    assert_eq!(evaluated["rmse"], told["test_rmse"]);
    let line = succeed(dir.path(), &["eval", folder]).stdout;
    assert!(line.starts_with("test RMSE 0.0") && line.contains("1000 rows"), "{line}");
    succeed(dir.path(), &["report", folder]);
    let page = fs::read_to_string(run.join("report.html")).expect("a page");
    assert!(page.contains("R², the share of variance explained") && page.contains("test RMSE"));
}

#[test]
fn the_wines_are_told_from_what_was_measured() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/winequality");
    if !data.exists() {
        eprintln!("skipped: no wine quality data in `{}`", data.display());
        return;
    }
    let dir = tempfile::tempdir().expect("temporary folder");
    let (wine, data) = (config("kan-wine.toml"), data.to_str().expect("text"));
    for model in ["model.domain=2.5", "model={ kind=\"mlp\", hidden=[25, 25] }"] {
        let arguments = ["train", &wine, "--data", data];
        let said = succeed(dir.path(), &with_sets(&arguments, &[model, "train.epochs=2"]));
        let told = json(&said.stdout);
        assert_eq!(told["test"]["samples"].as_u64(), Some(1299), "{told}");
        // The qualities deviate by 0.87.
        let rmse = told["test_rmse"].as_f64().expect("a score");
        assert!(rmse > 0.5 && rmse < 0.87, "{told}");
        assert!(said.stderr.contains("12 features to `quality`"), "{}", said.stderr);
    }
}

#[test]
fn files_with_a_header_and_a_missing_number_train_either_network() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    for model in ["model.kind=kan", "model.kind=mlp"] {
        let arguments = ["train", config, "--data", "."];
        let sets = [model, "train.epochs=60", "train.learning_rate=0.02"];
        let said = succeed(dir.path(), &with_sets(&arguments, &sets));
        let told = json(&said.stdout);
        // Without the feature of the files nobody could tell the hundred.
        assert!(told["test_rmse"].as_f64().expect("a score") < 10.0, "{model}: {told}");
        assert!(
            said.stderr.contains("100 training and 20 test rows, 3 features"),
            "{}",
            said.stderr
        );
    }
}

#[test]
fn a_run_cut_back_to_an_earlier_checkpoint_ends_bit_for_bit_the_same() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let quickstart = config("kan-quickstart.toml");
    let sets = [
        "data.train_rows=200",
        "data.test_rows=50",
        "train.epochs=2",
        "train.batch=40",
        "train.checkpoint_every_steps=3",
        "train.keep_checkpoints=9",
    ];
    let said = succeed(dir.path(), &with_sets(&["train", &quickstart], &sets));
    let run = dir.path().join(said.run_folder());
    let model =
        |run: &Path| crate::determinism::tensors(&run.join("checkpoints/step-00000010/model.bpk"));
    let (unbroken, weights) = (metrics(&run), model(&run));
    for step in [5, 6, 9, 10] {
        let checkpoint = run.join(format!("checkpoints/step-{step:08}"));
        fs::remove_dir_all(checkpoint).expect("removed");
    }
    let again = succeed(dir.path(), &["train", "--resume", run.to_str().expect("text")]);
    assert!(again.stderr.contains("resumed  after step 3"), "{}", again.stderr);
    assert_eq!(unbroken, metrics(&run));
    assert!(weights == model(&run), "the resumed weights differ");
    assert_eq!(json(&said.stdout)["test"], json(&again.stdout)["test"]);
}

#[test]
fn what_cannot_be_learned_from_is_refused_in_one_line() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    let two = fs::read_to_string(dir.path().join("two.csv")).expect("read");
    fs::write(dir.path().join("hole.csv"), two.replace("0;100;red;0", "0;?;red;0"))
        .expect("written");
    let flat = "a;y;color;b\n".to_owned() + &"1;2;red;3\n".repeat(40);
    fs::write(dir.path().join("flat.csv"), flat).expect("written");
    for (sets, words) in [
        (&["data.target=quality"][..], &["one.csv", "no column `quality`", "`color`"][..]),
        (&["data.features=[\"a\", \"c\"]"], &["one.csv", "no column `c`"]),
        (
            &["data.target=color", "data.features=[\"a\"]"],
            &["one.csv", "line 2", "`color`", "`red`"],
        ),
        (&["data.files=[\"hole.csv\"]"], &["hole.csv", "row 1", "lacks the target `y`"]),
        (&["data.files=[\"flat.csv\"]"], &["`y` is 2 in every", "nothing to learn"]),
        (&["data.files=[\"gone.csv\"]"], &["gone.csv", "not there"]),
        (&["data.delimiter=comma"], &["no column `a`"]),
        (&["train.batch=1000"], &["no batch", "100 samples"]),
        (&["train.criterion=test-accuracy"], &["`train.criterion`", "`test-loss`"]),
        (&["train.epoch=1"], &["unknown key `epoch`", "`epochs`"]),
        (&["task=chess"], &["`task`", "tabular-regression"]),
    ] {
        let said = run(dir.path(), &with_sets(&["train", config, "--data", "."], sets));
        assert_eq!(said.code, 2, "{sets:?}: {}", said.stderr);
        let errors: Vec<_> =
            said.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{sets:?}: {}", said.stderr);
        for word in words {
            assert!(errors[0].contains(word), "{sets:?}: `{word}` is missing: {}", errors[0]);
        }
    }
    assert!(!Path::new(&dir.path().join("runs")).exists(), "a refused run left a folder");
    let wine = self::config("kan-wine.toml");
    let said = run(dir.path(), &["train", &wine]);
    assert!(said.code == 2 && said.stderr.contains("wine+quality"), "{}", said.stderr);
}

#[test]
fn commands_for_images_refuse_tables_by_name() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    let folder = succeed(dir.path(), &["train", config, "--data", "."]).run_folder();
    let folder = folder.to_str().expect("text");
    for arguments in [
        &["predict", folder, "one.csv"][..],
        &["quantize", folder],
        &["lr-find", config],
        &["warm-up", config],
        &["pipeline", config],
        &["pipeline", config, "--dry-run"],
    ] {
        let said = run(dir.path(), arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
        assert!(
            said.stderr.contains("task `tabular-regression`"),
            "{arguments:?}: {}",
            said.stderr
        );
    }
    let said = succeed(dir.path(), &["explain", config, "--set", "model.kind=mlp"]);
    let line = |key: &str| said.stdout.lines().find(|line| line.starts_with(key)).expect("a line");
    assert!(line("data.target").contains(" file "), "{}", said.stdout);
    assert!(line("model.kind").contains("command line"), "{}", said.stdout);

    // The same rows may have moved.
    let moved = tempfile::tempdir().expect("temporary folder");
    for file in ["one.csv", "two.csv"] {
        fs::copy(dir.path().join(file), moved.path().join(file)).expect("copied");
    }
    succeed(dir.path(), &["eval", folder, "--data", moved.path().to_str().expect("text")]);

    // Other rows are not those that the run's numbers were scaled by.
    let one = fs::read_to_string(dir.path().join("one.csv")).expect("read");
    fs::write(dir.path().join("one.csv"), one.replace(";red;5", ";red;6")).expect("written");
    for arguments in [&["eval", folder][..], &["train", "--resume", folder]] {
        let said = run(dir.path(), arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains("is not what the run"), "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains("mean or deviation of `b`"), "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn a_narrow_precision_says_what_its_rate_promises() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let config = two_files(dir.path());
    let config = config.to_str().expect("text");
    let sets = ["precision=bf16-mixed", "model.kind=mlp", "train.epochs=1"];
    let said = succeed(dir.path(), &with_sets(&["train", config, "--data", "."], &sets));
    assert!(said.stderr.contains("peak     bf16 multiplies at"), "{}", said.stderr);
}
