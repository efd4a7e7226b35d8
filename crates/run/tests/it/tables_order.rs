//! Ordered classes that are one number in two spellings.

use std::fs;

use updraft_run::{Opening, Plan};

use crate::plans::read_with;

#[test]
fn two_spellings_of_one_number_are_not_two_ordered_classes() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let opened = |classes: [&str; 3], sets: &[&str]| -> Result<(), String> {
        let rows: String = (0..60).map(|row| format!("{row},{}\n", classes[row % 3])).collect();
        fs::write(dir.path().join("a.csv"), format!("size,grade\n{rows}")).expect("written");
        let text = "task = \"tables\"\n[data]\nsource = \"files\"\nfiles = [\"a.csv\"]\n\
                    [targets]\ngrade = { kind = \"ordered\" }\n[model]\nkind = \"mlp\"\n";
        let own = format!("data.dir={}", dir.path().display());
        let plan: Plan = read_with(text, &[&[own.as_str()], sets].concat()).expect("valid").plan;
        let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
        plan.task.open(&plan, opening).map(drop).map_err(|error| error.to_string())
    };
    for (classes, both) in [
        (["1", "2", "1.0"], ["1", "1.0"]),
        (["-0", "0", "5"], ["-0", "0"]),
        (["3e2", "300", "1"], ["300", "3e2"]),
        (["9007199254740992", "9007199254740993", "1"], ["9007199254740992", "9007199254740993"]),
    ] {
        let error = opened(classes, &[]).expect_err("refused");
        assert!(error.contains("are the same number"), "{error}");
        for spelling in both {
            assert!(error.contains(&format!("`{spelling}`")), "{classes:?}: {error}");
        }
    }
    opened(["1", "2", "1.5"], &[]).expect("three numbers");
    opened(["1", "2", "1.0"], &["targets.grade.classes=['1', '1.0', '2']"]).expect("named");
    opened(["1", "2", "1.0"], &["data.replace={grade={'1.0'='1'}}"]).expect("read alike");
}
