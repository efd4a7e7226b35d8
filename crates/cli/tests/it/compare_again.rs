//! Comparisons that are called again after their config, profile or data changed.

use std::fs;
use std::path::Path;

use updraft_run::RunLock;

use crate::command::{Said, run, succeed};

const IMAGES: &str = "\
name = \"c\"
[data]
train_images = 40
test_images = 20
[model]
channels = 2
[train]
epochs = 1
batch = 20
";

const ROWS: &str = "\
task = \"tables\"
name = \"t\"
[data]
source = \"files\"
files = [\"t.csv\"]
[targets]
y = { kind = \"number\" }
[model]
kind = \"kan\"
hidden = [2]
[train]
epochs = 1
batch = 20
";

fn refused(said: &Said, words: &str) {
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(said.stderr.contains(words), "`{words}` is missing: {}", said.stderr);
}

/// The run folders of the first arm and seed.
fn runs(dir: &Path) -> usize {
    let entries = fs::read_dir(dir.join("runs/compare/arm-1-seed-1")).expect("runs").flatten();
    entries.filter(|entry| entry.path().is_dir()).count()
}

#[test]
fn an_edited_config_or_profile_is_not_compared_with_runs_of_before() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
    write("c.toml", IMAGES);
    write("p.toml", "[train]\nworkers = 1\n");
    let arms = ["--arm", "train.batch=20", "--arm", "train.batch=10", "--profile", "p.toml"];
    let compare = |seeds| [&["compare", "c.toml", "--seeds", seeds][..], &arms].concat();
    succeed(dir.path(), &compare("1"));
    write("c.toml", &IMAGES.replace("epochs = 1", "epochs = 3"));
    for more in [&[][..], &["--dry-run"]] {
        let said = run(dir.path(), &[&compare("2")[..], more].concat());
        refused(&said, "has runs with another `train.epochs` (1, here 3); name another folder");
    }
    write("c.toml", IMAGES);
    write("p.toml", "[train]\nworkers = 0\n");
    refused(&run(dir.path(), &compare("2")), "has runs with another `train.workers` (1, here 0)");
    write("p.toml", "[train]\nworkers = 1\n");

    // Without its record, a result is not used; with it, nothing is trained again.
    let record = dir.path().join("runs/compare/arm-1-seed-1/compare.json");
    let whole = fs::read(&record).expect("a record");
    fs::write(&record, &whole[..whole.len() / 2]).expect("written");
    refused(&run(dir.path(), &compare("1")), "compare.json` is damaged: ");
    fs::remove_file(&record).expect("removed");
    refused(&run(dir.path(), &compare("1")), "there is no `compare.json` beside it");
    fs::write(&record, &whole).expect("written");
    succeed(dir.path(), &compare("1"));
    assert_eq!((runs(dir.path()), fs::read(&record).expect("a record")), (1, whole));

    // A summary that cannot be read is not an absent one.
    let entries = fs::read_dir(record.parent().expect("a folder")).expect("runs").flatten();
    let mut summaries = entries.map(|entry| entry.path().join("summary.json"));
    let summary = summaries.find(|path| path.is_file()).expect("a summary");
    fs::rename(&summary, dir.path().join("summary.json")).expect("renamed");
    fs::create_dir(&summary).expect("created");
    refused(&run(dir.path(), &compare("1")), "summary.json`: it is not a regular file");
    assert_eq!(runs(dir.path()), 1);
}

#[test]
fn changed_data_is_not_compared_with_runs_of_before() {
    let dir = tempfile::tempdir().expect("temporary folder");
    fs::write(dir.path().join("c.toml"), ROWS).expect("written");
    let write = |last: usize| {
        let rows = (0..50).map(|at| format!("{at},{}\n", if at < 49 { at * 2 } else { last }));
        let text = format!("a,y\n{}", rows.collect::<String>());
        fs::write(dir.path().join("t.csv"), text).expect("written");
    };
    let arms = ["--arm", "train.batch=20", "--arm", "train.batch=10"];
    let compare =
        |seeds| [&["compare", "c.toml", "--data", ".", "--seeds", seeds][..], &arms].concat();
    write(98);
    let first = succeed(dir.path(), &compare("1"));
    write(97);
    let said = run(dir.path(), &compare("2"));
    refused(&said, "has runs with another digest of the data (");

    // What is finished is printed without the data, also while another process trains.
    fs::remove_file(dir.path().join("t.csv")).expect("removed");
    let lock = RunLock::take(&dir.path().join("runs/compare")).expect("free");
    let again = succeed(dir.path(), &compare("1"));
    assert_eq!((again.stdout, runs(dir.path())), (first.stdout, 1));
    drop(lock);
}
