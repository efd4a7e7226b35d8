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
        ("cost", "look like numbers with a sign of a currency or `%`, such as `"),
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
    assert!(error.contains("a value of `sold` that no other row has"), "{error}");

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
    assert!(error.ends_with("test.csv` is encoded as UTF-16; save it as UTF-8"), "{error}");
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
