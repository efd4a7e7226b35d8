//! Grids of too many points.

use crate::command::run;
use crate::tune::{CONFIG, folder};

#[test]
fn a_dry_run_refuses_the_grid_that_a_search_refuses() {
    let dir = folder(CONFIG);
    // Two choices for each of a million learning rates.
    let set = ["--set", "tune.sampler={kind='grid',points=1000000}", "--study", "s"];
    let arguments = [&["tune", "c.toml"][..], &set].concat();
    let searched = run(dir.path(), &arguments);
    let dry = run(dir.path(), &[&arguments[..], &["--dry-run"]].concat());
    for said in [&searched, &dry] {
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{}", said.stderr);
        let expected = "`tune.sampler` is a grid of more than a million points; it must be";
        assert!(said.stderr.contains(expected), "{}", said.stderr);
    }
    assert_eq!(searched.stderr, dry.stderr);
    assert!(!dir.path().join("s").exists());
}
