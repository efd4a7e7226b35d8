//! Searches on a storage that does not work.

use std::fs;

use crate::command::{run, succeed};
use crate::tune::{CONFIG, folder, last_json};

#[test]
fn folders_that_cannot_be_created_use_up_no_attempts_of_a_trial() {
    let dir = folder(&CONFIG.replace("epochs = 3", "epochs = 1"));
    let tune = |trials| ["tune", "c.toml", "--study", "s", "--trials", trials];
    succeed(dir.path(), &tune("1"));
    // Each attempt has a folder of its own.
    let taken = ["0001", "0001-2", "0001-3"].map(|name| dir.path().join("s/trials").join(name));
    for path in &taken {
        fs::write(path, "").expect("written");
    }
    for path in &taken {
        let said = run(dir.path(), &tune("2"));
        assert_eq!(said.code, 1, "{}", said.stderr);
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(
            said.stderr.contains(&format!("cannot create `s/trials/{name}`")),
            "{}",
            said.stderr
        );
    }
    for path in &taken {
        fs::remove_file(path).expect("removed");
    }
    let report = last_json(&succeed(dir.path(), &tune("2")));
    assert_eq!((&report["finished"], &report["failed"]), (&2.into(), &0.into()), "{report}");
}
