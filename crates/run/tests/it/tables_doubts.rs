//! Columns that are read as something else than they are, and the messages about them.

use std::fs;

use updraft_run::{Opening, Plan, RunError};

use crate::tables::with;
use crate::train::workload;

const CONFIG: &str = "task = \"tables\"\n\
    [data]\nsource = \"files\"\nfiles = [\"rows.csv\"]\ntest_fraction = 0.25\n\
    [targets]\nsold = { kind = \"classes\" }\n\
    [model]\nhidden = 4\n[train]\nepochs = 1\nbatch = 10\n";

/// A folder with rows of a header's columns, and their plan.
fn plan(
    header: &str,
    rows: usize,
    row: impl Fn(usize) -> String,
    sets: &[&str],
) -> (tempfile::TempDir, Plan) {
    let dir = tempfile::tempdir().expect("temporary folder");
    let rows: String = (0..rows).map(row).collect();
    fs::write(dir.path().join("rows.csv"), format!("{header}\n{rows}")).expect("written");
    let plan = with(dir.path(), CONFIG, sets);
    (dir, plan)
}

fn refused(plan: &Plan) -> RunError {
    let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
    let error = plan.task.open(plan, opening).map(drop).expect_err("refused");
    assert!(error.is_input(), "{error}");
    error
}

#[test]
fn columns_in_doubt_are_reported_with_an_example() {
    let header = ",size,mass,day,key,cost,color,sold";
    let row = |at: usize| {
        let (sold, color) = (["yes", "no"][at % 2], ["red", "blue", "green"][at % 3]);
        format!(
            "{at},\"{at},5\",\"{},{:03}\",{}/{}/2024,A{at},{at}.5 %,{color},{sold}\n",
            at + 1,
            at,
            at % 12 + 1,
            at % 28 + 1
        )
    };
    let (_dir, inferred) = plan(header, 60, row, &[]);
    let notes = workload(&inferred, None).about().notes;
    for (column, expected) in [
        ("", "the feature 1 has no name in the header"),
        ("size", "look like numbers with a decimal comma, such as `"),
        ("mass", "look like numbers with separators of thousands, such as `"),
        ("day", "look like dates, such as `"),
        ("key", "different ones in 44 training values, such as `A"),
        ("cost", "look like numbers with a unit, such as `"),
    ] {
        let note = notes.iter().find(|note| note.contains(expected));
        let note = note.unwrap_or_else(|| panic!("{expected}: {notes:#?}"));
        assert!(column.is_empty() || note.contains(&format!("`{column}`")), "{note}");
    }
    assert!(!notes.iter().any(|note| note.contains("`color`")), "{notes:#?}");
    // Who names the kind of a column has no doubt, and a column without a name can be left out.
    let sets = ["data.categories=['size', 'mass', 'day', 'key', 'cost']", "data.leave_out=['']"];
    let (_dir, decided) = plan(header, 60, row, &sets);
    assert_eq!(workload(&decided, None).about().notes, [""; 0]);
}

#[test]
fn markers_of_missing_values_and_columns_without_known_words_are_reported() {
    let row = |at: usize| {
        let hours = if at % 10 == 3 { "n/a".to_owned() } else { at.to_string() };
        format!("{hours},{},{}\n", ["red", "blue"][at % 2], ["yes", "no"][at % 2])
    };
    let (_dir, plan) = plan("hours,color,sold", 60, row, &["data.min_rows=40"]);
    let notes = workload(&plan, None).about().notes;
    let marker = "training values are numbers, such as `";
    assert!(notes.iter().any(|note| note.contains(marker) && note.contains("is `n/a`: add it to")));
    for column in ["hours", "color"] {
        let unknown = format!("every value of column `{column}` is unknown: no value is in");
        assert!(notes.iter().any(|note| note.contains(&unknown)), "{notes:#?}");
    }
}

#[test]
fn rows_with_a_class_that_no_other_row_has_are_not_held_out() {
    let row = |at: usize| {
        let sold = if at == 7 { "rare" } else { ["yes", "no"][at % 2] };
        format!("{at},{},{sold},{}\n", at % 7, ["a", "b", "c", ""][at % 4])
    };
    let targets = "targets={sold={kind='classes'},tags={kind='labels'}}";
    let fractions = ["data.test_fraction=0.5", "data.validation_fraction=0.5"];
    for seed in 1..=12 {
        let seed = format!("seed={seed}");
        let sets = [targets, fractions[0], fractions[1], "data.stratify=tags", &seed];
        let (_dir, plan) = plan("size,age,sold,tags", 60, row, &sets);
        // Otherwise it is an error that the class is in no training row.
        assert!(workload(&plan, None).about().test_samples > 20);
    }
}

#[test]
fn a_column_that_counts_the_rows_is_reported() {
    let row = |at: usize| format!("{},{},{}\n", at + 100, at * 7 % 5, ["yes", "no"][at % 2]);
    let (dir, numbered) = plan("id,size,sold", 60, row, &[]);
    // Which rows are training rows depends on the seed; those in between have other numbers.
    let notes = workload(&numbered, None).about().notes;
    assert!(notes.iter().any(|note| note.contains("column `id` count the rows")), "{notes:?}");
    assert!(!notes.iter().any(|note| note.contains("`size`")), "{notes:?}");
    drop(dir);
}

#[test]
fn errors_name_the_cause() {
    let row = |at: usize| format!("{},{at}\n", at % 7);
    let (_dir, singles) = plan("size,sold", 8, row, &[]);
    let error = refused(&singles).to_string();
    assert!(error.contains("a value of a target that no other row has"), "{error}");

    let row = |at: usize| format!("{at},a|b,{}\n", ["yes", "no"][at % 2]);
    let sets = ["data.min_rows=500", "data.lists={tags=\"|\"}"];
    let (_dir, few) = plan("size,tags,sold", 40, row, &sets);
    let error = refused(&few).to_string();
    let expected = "column `tags` has no value in at least 500 training rows (`min_rows`)";
    assert!(error.contains(expected), "{error}");

    let row = |at: usize| format!("{at},{},{}\n", at % 3, ["yes", "no"][at % 2]);
    let sets = ["data.test_files=[\"test.csv\"]"];
    let dir = tempfile::tempdir().expect("temporary folder");
    let rows: String = (0..40).map(row).collect();
    fs::write(dir.path().join("rows.csv"), format!("size,age,sold\n{rows}")).expect("written");
    fs::write(dir.path().join("test.csv"), "size,sold\n1,yes\n").expect("written");
    let config = CONFIG.replace("test_fraction = 0.25\n", "");
    let error = refused(&with(dir.path(), &config, &sets)).to_string();
    let expected = "test.csv` has no column `age`, which is a feature of the other files; it has \
                    `size`, `sold`";
    assert!(error.contains(expected), "{error}");

    let wide: Vec<u8> = "size,sold\n1,yes\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(dir.path().join("test.csv"), [&[0xFF, 0xFE][..], &wide].concat()).expect("written");
    let error = refused(&with(dir.path(), &config, &sets)).to_string();
    let expected =
        "test.csv` is encoded as UTF-16; save it as UTF-8, such as with `iconv -f utf-16";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_delimiter_is_named_or_written() {
    let row = |at: usize| format!("{at}|{}|{}\n", at % 3, ["yes", "no"][at % 2]);
    for set in ["data.delimiter=pipe", "data.delimiter=\"|\""] {
        let (_dir, piped) = plan("size|age|sold", 40, row, &[set]);
        assert!(workload(&piped, None).about().data.contains("2 numbers"), "{set}");
    }
    let (_dir, piped) = plan("size|age|sold", 40, row, &[]);
    let error = refused(&piped).to_string();
    assert!(error.contains("set `data.delimiter` to \"pipe\""), "{error}");
}
