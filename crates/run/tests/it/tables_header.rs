//! `data.columns` for files that have a header.

use std::fs;
use std::path::Path;

use updraft_run::{Opening, Plan};

use crate::plans::read_with;

const ROWS: &str = "task = \"tables\"\n[data]\nsource = \"files\"\nfiles = [\"a.csv\"]\n\
                    [targets]\nkind = { kind = \"classes\" }\n[model]\nkind = \"mlp\"\n";

fn plan(dir: &Path, sets: &[&str]) -> Plan {
    let own = format!("data.dir={}", dir.display());
    read_with(ROWS, &[&[own.as_str()], sets].concat()).expect("valid").plan
}

fn opened(plan: &Plan) -> Result<(), String> {
    let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
    plan.task.open(plan, opening).map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_header_below_the_names_of_the_columns_is_no_row() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let rows: String = (0..40).map(|row| format!("{},{}\n", row, ["a", "b"][row % 2])).collect();
    let columns = "data.columns=['size', 'kind']";
    for header in ["size,kind\n", "\u{feff}size,\"kind\"\r\n", "\nsize , kind\n"] {
        fs::write(dir.path().join("a.csv"), format!("{header}{rows}")).expect("written");
        for sets in [&[columns][..], &[columns, "data.features=['size']"]] {
            let error = opened(&plan(dir.path(), sets)).expect_err("refused");
            let line = if header.starts_with('\n') { 2 } else { 1 };
            let expected = format!("a.csv` line {line} has the names of `data.columns`: leave out");
            assert!(error.contains(&expected), "{header:?}: {error}");
        }
    }
    fs::write(dir.path().join("a.csv"), format!("size,kind\n{rows}")).expect("written");
    opened(&plan(dir.path(), &[])).expect("its own header");
    // Without a header, and with a row that shares one of the names only.
    for first in ["", "7,kind\n9,kind\n"] {
        fs::write(dir.path().join("a.csv"), format!("{first}{rows}")).expect("written");
        opened(&plan(dir.path(), &[columns])).expect("no header");
    }
}
