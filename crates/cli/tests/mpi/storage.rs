//! Storage of ranks: a disk that becomes full, and folders that are not shared.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use updraft_trainer::{check_checkpoint, list_checkpoints};

use crate::processes::{SMALL, finished, mpirun, mpirun_words, run_of, weights};

/// Runs the words after `$3` with `$1` bytes of storage in `$2`, and copies to `$3` what is left.
const FULL: &str = r#"
bytes=$1; place=$2; left=$3; shift 3
mount -t tmpfs -o "size=$bytes" tmpfs "$place" || exit 97
"$@"
code=$?
cp -a "$place/." "$left" || exit 97
exit $code
"#;

/// Gives rank 1 another file system in `$1`.
const APART: &str = r#"
place=$1; shift
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
    exec unshare -rm sh -c 'mount -t tmpfs tmpfs "$0" || exit 97; exec "$@"' "$place" "$@"
fi
exec "$@"
"#;

/// A checkpoint does not fit: both ranks end with one error, what was saved before is whole, and the
/// run continues to the same bits where there is room.
pub(crate) fn full_on_rank_0(whole: &Path, expected: &BTreeMap<String, String>) {
    if !has_mounts() {
        println!("SKIPPED: a full disk on rank 0: no mounts in a namespace (`unshare -rm`)");
        return;
    }
    let checkpoints = list_checkpoints(&run_of(whole).unwrap().join("checkpoints")).unwrap();
    // Files in tmpfs take whole pages.
    let pages = |path: &Path| {
        let files = fs::read_dir(path).unwrap().map(|file| file.unwrap().metadata().unwrap());
        files.map(|file| file.len().div_ceil(4096) * 4096).sum::<u64>()
    };
    let bytes = pages(checkpoints.last().unwrap()) * 5 / 2 + 65_536;
    let [place, left] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut words: Vec<&str> = vec!["train", "--runs", place.path().to_str().unwrap()];
    words.extend(SMALL.iter().flat_map(|set| ["--set", set]));
    let started = Instant::now();
    let script = ["-rm", "sh", "-c", FULL, "sh"].map(str::to_owned);
    let paths = [place.path(), left.path()].map(|path| path.to_str().unwrap().to_owned());
    let script = script.into_iter().chain([bytes.to_string()]).chain(paths);
    let output = started_by("unshare", script, &words).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    assert!(text.contains("error: rank 0 of 2: ") && text.contains("No space left"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(60), "{text}");
    let run = run_of(left.path()).unwrap();
    let saved = run.join("checkpoints");
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    };
    let listed = list_checkpoints(&saved).unwrap();
    assert!(!listed.is_empty(), "{text}");
    for path in &listed {
        check_checkpoint(path).unwrap();
    }
    let hidden = names(&saved).into_iter().filter(|name| name.starts_with('.'));
    assert_eq!(hidden.count(), 0, "{:?}", names(&saved));
    finished(mpirun(&["train", "--resume", run.to_str().unwrap()]));
    assert!(weights(left.path()) == *expected);
    println!("a full disk on rank 0: both ranks end, and the resumed run has the same checkpoint");
}

/// Rank 1 has a folder of its own: both report it, and no run folder is left.
pub(crate) fn not_shared() {
    if !has_mounts() {
        println!("SKIPPED: storage that is not shared: no mounts in a namespace (`unshare -rm`)");
        return;
    }
    let runs = tempfile::tempdir().unwrap();
    let place = runs.path().to_str().unwrap();
    let mut mpirun = mpirun_words(2);
    mpirun.extend(["sh", "-c", APART, "sh", place].map(str::to_owned));
    let output = started(mpirun, &["train", "--runs", place]).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("rank 1 does not see what rank 0 writes into"), "{text}");
    assert!(run_of(runs.path()).is_none(), "the folder that was begun is removed: {text}");
    println!("storage that is not shared is refused, and no run folder is left");
}

/// Whether this system allows mounts that only some processes see.
fn has_mounts() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=64k tmpfs \"$1\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["-rm", "sh", "-c", mount, "sh"]).arg(folder.path());
    unshare.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Starts two ranks of the program within another one.
fn started_by(program: &str, arguments: impl Iterator<Item = String>, words: &[&str]) -> Child {
    let before = [program.to_owned()].into_iter().chain(arguments).chain(mpirun_words(2));
    started(before.collect(), words)
}

fn started(before: Vec<String>, words: &[&str]) -> Child {
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).arg(env!("CARGO_BIN_EXE_updraft")).args(words);
    crate::processes::as_rank(&mut command).spawn().unwrap()
}
