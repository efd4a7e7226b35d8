//! `predict --out` of a table: a table of predictions, complete or absent.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{json, run, said, succeed};

/// Two classes with names that need quotes, labels and a number, from a number and a category.
fn trained(dir: &Path) -> String {
    let rows = (0..80).map(|at| {
        let (size, color) = (at % 10, ["red", "blue"][at % 2]);
        let kind = if size > 4 { "\"large, \"\"heavy\"\"\"" } else { "small" };
        let tags = ["warm;big", "warm", "big", ""][at % 2 * 2 + usize::from(size <= 4)];
        format!("{size},{color},{kind},{tags},{}\n", 3 * size)
    });
    let text = format!("size,color,kind,tags,price\n{}", rows.collect::<String>());
    fs::write(dir.join("t.csv"), text).expect("written");
    let config = "task = \"tables\"\n[data]\nsource = \"files\"\nfiles = [\"t.csv\"]\n\
                  [targets]\nkind = { kind = \"classes\" }\nprice = { kind = \"number\" }\n\
                  tags = { kind = \"labels\", separator = \";\" }\n[model]\nhidden = [16]\n\
                  [train]\nepochs = 30\nbatch = 16\nlearning_rate = 0.02\n";
    fs::write(dir.join("c.toml"), config).expect("written");
    let run = succeed(dir, &["train", "c.toml", "--data", "."]).run_folder();
    run.to_str().expect("text").to_owned()
}

#[test]
fn rows_become_a_table_of_values_and_probabilities_in_their_order() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let dir = dir.path();
    let folder = trained(dir);
    // More than a block.
    let rows: String =
        (0..5000).map(|at| format!("{},{}\n", at % 10, ["red", "blue"][at % 2])).collect();
    fs::write(dir.join("new.csv"), format!("size,color\n{rows}")).expect("written");
    let lines = succeed(dir, &["predict", &folder, "new.csv", "--json", "--top", "2"]).stdout;
    let said = succeed(dir, &["predict", &folder, "new.csv", "--out", "out/p.csv"]);
    assert_eq!(said.stdout, "out/p.csv  5000 rows, 7 columns\n");
    let text = fs::read_to_string(dir.join("out/p.csv")).expect("a table");
    let mut records = text.lines();
    let large = "\"large, \"\"heavy\"\"\"";
    assert_eq!(
        records.next(),
        Some(
            "kind,\"kind-probability-large, \"\"heavy\"\"\",kind-probability-small,price,\
             tags,tags-probability-big,tags-probability-warm"
        )
    );
    assert_eq!(records.clone().count(), 5000);
    for (record, line) in records.zip(lines.lines()) {
        let predicted = json(line);
        let target = |at: usize| &predicted["targets"][at];
        let classes = target(0)["classes"].as_array().expect("classes");
        let of = |name: &str| {
            let class = classes.iter().find(|class| class["class"] == name).expect("a class");
            class["probability"].as_f64().expect("a number") as f32
        };
        let best = if classes[0]["class"] == "small" { "small" } else { large };
        let labels = target(2)["labels"].as_array().expect("labels");
        let applying = labels.iter().filter(|label| label["applies"] == true);
        let applying: Vec<&str> = applying.map(|it| it["label"].as_str().expect("text")).collect();
        let share = |at: usize| labels[at]["probability"].as_f64().expect("a number") as f32;
        let price = target(1)["number"]["value"].as_f64().expect("a number");
        let expected = format!(
            "{best},{},{},{price},{},{},{}",
            of("large, \"heavy\""),
            of("small"),
            applying.join(";"),
            share(0),
            share(1)
        );
        assert_eq!(record, expected, "{line}");
    }
    for words in [large, "small,", "big;warm"] {
        assert!(text.contains(words), "no row is predicted as {words}");
    }

    // With tabs, and what was written in JSON; only an earlier prediction is replaced.
    fs::write(dir.join("p.tsv"), "kind\tkind-probability\n").expect("written");
    let refused = run(dir, &["predict", &folder, "new.csv", "--out", "p.tsv"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let expected = "`p.tsv` exists and has other columns than the predictions of this run";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    fs::remove_file(dir.join("p.tsv")).expect("removed");
    succeed(dir, &["predict", &folder, "new.csv", "--out", "p.tsv"]);
    let said = succeed(dir, &["predict", &folder, "new.csv", "--out", "p.tsv", "--json"]);
    let report = json(&said.stdout);
    assert_eq!((&report["rows"], &report["columns"]), (&5000.into(), &7.into()));
    let tabs = fs::read_to_string(dir.join("p.tsv")).expect("a table");
    assert!(tabs.starts_with("kind\t\"kind-probability-large, \"\"heavy"), "{}", &tabs[..80]);
    assert_eq!(tabs.lines().count(), 5001);
}

#[test]
fn an_error_or_a_full_disk_leaves_no_half_of_a_table() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let dir = dir.path();
    let folder = trained(dir);
    fs::create_dir(dir.join("out")).expect("made");
    let files = || fs::read_dir(dir.join("out")).expect("a folder").count();
    let rows = "1,red\n".repeat(9000);
    fs::write(dir.join("bad.csv"), format!("size,color\n{rows}large,red\n")).expect("written");
    let refused = run(dir, &["predict", &folder, "bad.csv", "--out", "out/p.csv"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let place = "`bad.csv` line 9002, column `size`: expected a finite number, got `large`; correct \
                 it\n";
    assert!(refused.stderr.contains(place), "{}", refused.stderr);
    assert_eq!(files(), 0, "something is left");

    // A limit on the size of files, in blocks of 512 or 1024 bytes, which a signal would report first.
    fs::write(dir.join("new.csv"), format!("size,color\n{rows}")).expect("written");
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$@\"", "sh"]);
    limited.arg(env!("CARGO_BIN_EXE_updraft")).current_dir(dir);
    limited.args(["predict", &folder, "new.csv", "--out", "out/p.csv"]);
    let full = said(limited.output().expect("it starts"));
    assert_eq!(full.code, 1, "{}", full.stderr);
    assert!(full.stderr.contains("cannot write `out/p.csv`: "), "{}", full.stderr);
    assert_eq!(files(), 0, "something is left");
    succeed(dir, &["predict", &folder, "new.csv", "--out", "out/p.csv"]);
    assert_eq!(files(), 1);
}

#[test]
fn a_table_that_cannot_be_written_is_refused_before_the_model_is_loaded() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let dir = dir.path();
    let folder = trained(dir);
    fs::create_dir(dir.join("folder.csv")).expect("made");
    for (rest, words) in [
        (&["t.csv", "--out", "t.csv"][..], "the output and the input are one file, `t.csv`"),
        (&["t.csv", "--out", "./folder.csv"], "`./folder.csv` is a folder; name a file to write"),
        (&["t.csv", "--out", "p.tif"], "`p.tif` does not end in .csv or .tsv"),
        (&["t.csv", "t.csv", "--out", "p.csv"], "2 files are to be predicted; name one"),
        (&["t.csv", "--out", "p.csv", "--batch", "4"], "`p.csv` is a table, which has no windows"),
        (&["t.csv", "--out", "p.csv", "--top", "2"], "cannot be used with"),
    ] {
        for dry in [&[][..], &["--dry-run"]] {
            let refused = run(dir, &[&["predict", &folder], rest, dry].concat());
            assert_eq!(refused.code, 2, "{rest:?}: {}", refused.stderr);
            assert!(refused.stderr.contains(words), "{rest:?}: {}", refused.stderr);
        }
    }
    let dry = succeed(dir, &["predict", &folder, "t.csv", "--out", "p.csv", "--dry-run"]).stdout;
    assert!(dry.contains("p.csv") && !dir.join("p.csv").exists(), "{dry}");
    let image = crate::command::TASKS[0].succeed(dir, "train", &["train.epochs=1"]).run_folder();
    let image = image.to_str().expect("text");
    let refused = run(dir, &["predict", image, "t.csv", "--out", "p.csv"]);
    assert!(refused.stderr.contains("predicts no rows of tables"), "{}", refused.stderr);
}
