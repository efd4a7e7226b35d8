//! Commands on several ranks: `train` repeats its bits, ends if a rank is killed, and resumes; `eval`
//! and `predict` print what one rank prints.
// tidy: long because every scenario uses the same launchers and runs
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test without a harness")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use updraft_trainer::{checkpoint_contents, list_checkpoints};

const SMALL: [&str; 5] = [
    "data.train_images=640",
    "data.test_images=50",
    "train.epochs=6",
    "train.batch=16",
    "train.checkpoint_every_steps=10",
];

fn main() {
    let runs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [whole, again, killed] = runs.each_ref().map(|folder| folder.path());
    let new = |runs: &Path| {
        let mut arguments = vec!["train", "--runs", runs.to_str().unwrap()];
        arguments.extend(SMALL.iter().flat_map(|set| ["--set", set]));
        mpirun(&arguments)
    };
    let text = finished(new(whole));
    assert_eq!(text.matches("epoch 6/6").count(), 1, "one rank prints: {text}");
    finished(new(again));
    let expected = weights(whole);
    assert_eq!(weights(again), expected);
    println!("two ranks: one run folder, the same checkpoint in a second run");

    let child = new(killed);
    let started = Instant::now();
    while steps(killed) < 60 {
        assert!(started.elapsed() < Duration::from_secs(120), "the run does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_rank_1(killed);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "a lost rank ends the run");
    assert!(started.elapsed() < Duration::from_secs(180));
    let run = run_of(killed).unwrap();
    let text = finished(mpirun(&["train", "--resume", run.to_str().unwrap()]));
    assert!(text.contains("resumed"), "{text}");
    assert_eq!(weights(killed), expected);
    println!("rank 1 was killed: the other ended, and the resumed run has the same checkpoint");

    scores_and_predictions(&run_of(whole).unwrap());
    windows_of_an_image();
    rows_of_a_table();
    launched(&expected);
    launched_again_without_a_checkpoint(&expected);
    interrupted(&expected);
    timed_out();

    for (set, key) in [
        ("train.batch=1", "`train.batch` is 1"),
        ("train.auto_batch={}", "`train.auto_batch` needs a single rank"),
        ("train.recompute_batch_norms=2", "`train.recompute_batch_norms` needs a single rank"),
        ("train.read_every=3", "`train.read_every` needs a single rank"),
        ("data.faults={kind=\"skip\",at_most=1}", "faults"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().to_str().unwrap();
        let child = mpirun(&["train", "--runs", runs, "--set", set]);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(key), "{set}: {text}");
        assert!(run_of(folder.path()).is_none(), "{set}: no run folder is left");
    }
    println!("settings that need a single rank are refused by their keys");
    endured();
}

/// `eval` and `predict` print what one rank prints, for any number of ranks.
fn scores_and_predictions(run: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("in");
    fs::create_dir(&images).unwrap();
    for at in 0..300_u16 {
        let pixel = |x, y| image::Rgb([(x * 9) as u8, (y * 7) as u8, (at % 256) as u8]);
        let image = image::RgbImage::from_fn(16, 16, pixel);
        image.save(images.join(format!("{at:03}.png"))).unwrap();
    }
    let (run, images) = (run.to_str().unwrap(), images.to_str().unwrap());
    let parts = folder.path().join("parts");
    let kept = ["predict", run, images, "--json", "--parts", parts.to_str().unwrap()];
    for arguments in [
        &["eval", run, "--json", "--tta", "flip"][..],
        &["predict", run, images],
        &["predict", run, images, "--json", "--top", "2"],
        &kept,
    ] {
        let printed = |child: Child| {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{arguments:?}: {text}");
            String::from_utf8(output.stdout).unwrap()
        };
        let alone = printed(updraft(arguments));
        assert!(alone.lines().count() >= if arguments[0] == "eval" { 1 } else { 300 });
        for ranks in [2, 3] {
            if parts.exists() {
                fs::remove_dir_all(&parts).unwrap();
            }
            assert!(printed(mpirun_of(ranks, arguments)) == alone, "{arguments:?}, {ranks} ranks");
        }
    }
    println!("eval and predict: two and three ranks print what one prints");

    // Of 150 parts, those that were finished when rank 1 was killed are not repeated.
    fs::remove_dir_all(&parts).unwrap();
    let finished = || fs::read_dir(&parts).map_or(0, Iterator::count);
    let child = launcher(&[], &kept);
    wait_until("a part", || finished() > 10);
    kill_rank_1(&parts);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("from what is finished"), "{text}");
    let alone = updraft(&["predict", run, images, "--json"]).wait_with_output().unwrap();
    assert!(output.stdout == alone.stdout, "{text}");
    println!("launch: rank 1 of predict was killed, and the restarted ranks print the same");

    let mut child = launcher(&[], &["predict", run, images]);
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    kill_rank_1(&folder.path().join("in"));
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && text.contains("only with --parts or --out"),
        "{text}"
    );

    fs::write(folder.path().join("in/150.png"), "no image").unwrap();
    let alone = updraft(&["predict", run, images]).wait_with_output().unwrap();
    let ranks = mpirun(&["predict", run, images]).wait_with_output().unwrap();
    assert_eq!((alone.status.code(), ranks.status.code()), (Some(2), Some(2)));
    assert!(ranks.stdout == alone.stdout && !alone.stdout.is_empty());
    let text = String::from_utf8_lossy(&ranks.stderr).into_owned();
    assert!(text.contains("150.png"), "{text}");
    println!("predict: a damaged file ends all ranks after the lines before it");
}

/// `predict --out` writes the file that one rank writes, for any number of ranks.
fn windows_of_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = "task = \"image-to-image\"\n[data]\ntarget = \"image\"\npatch = [16, 16]\npatches = 8\n\
                  sides = [32, 32]\ntrain_fields = 2\ntest_fields = 1\n[model]\n\
                  filters = [4, 8]\n[train]\nepochs = 1\nbatch = 4\n";
    fs::write(path("config.toml"), config).unwrap();
    let trained = updraft(&["train", &path("config.toml"), "--runs", &path("runs")]);
    finished(trained);
    let run = run_of(Path::new(&path("runs"))).unwrap();
    let (run, input) = (run.to_str().unwrap(), path("in.png"));
    let pixel = |x, y| image::Luma([(x * 3 + y * y) as u8]);
    image::GrayImage::from_fn(101, 67, pixel).save(&input).unwrap();
    let predict = |out: &'static str| -> Vec<String> {
        let words = ["predict", run, &input, "--batch", "3", "--out"];
        words.into_iter().map(str::to_owned).chain([path(out)]).collect()
    };
    let words = predict("1.tif");
    let alone = updraft(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(alone.wait_with_output().unwrap().status.success());
    let expected = fs::read(path("1.tif")).unwrap();
    for (ranks, out) in [(2, "2.tif"), (3, "3.tif")] {
        let words = predict(out);
        let child = mpirun_of(ranks, &words.iter().map(String::as_str).collect::<Vec<_>>());
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(printed.matches("67 x 101").count(), 1, "one rank prints: {printed}");
        assert!(fs::read(path(out)).unwrap() == expected, "{ranks} ranks");
    }
    println!("predict --out: two and three ranks write the file that one writes");
}

/// `predict` prints for one table what one rank prints, for any number of ranks.
fn rows_of_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = "task = \"tables\"\n[data]\nsource = \"formula\"\ntrain_rows = 96\n\
                  test_rows = 20\n[model]\nkind = \"mlp\"\nhidden = [8]\n[train]\n\
                  epochs = 1\nbatch = 24\n";
    fs::write(path("config.toml"), config).unwrap();
    finished(updraft(&["train", &path("config.toml"), "--runs", &path("runs")]));
    let run = run_of(Path::new(&path("runs"))).unwrap();
    let (run, table) = (run.to_str().unwrap(), path("rows.csv"));
    let row =
        |at: usize| format!("{},{}\n", (at % 100) as f64 / 100.0, (at * 31 % 97) as f64 / 97.0);
    let rows = |bad: Option<usize>| {
        let line = |at: usize| if bad == Some(at) { "bad,0\n".to_owned() } else { row(at) };
        format!("x1,x2\n{}", (0..20_000).map(line).collect::<String>())
    };
    for (bad, code) in [(None, 0), (Some(9000), 2)] {
        fs::write(&table, rows(bad)).unwrap();
        for arguments in [&["predict", run, &table][..], &["predict", run, &table, "--json"]] {
            let ended = |child: Child| {
                let output = child.wait_with_output().unwrap();
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(code), "{text}");
                assert!(code == 0 || text.contains("line 9002"), "{text}");
                output.stdout
            };
            let alone = ended(updraft(arguments));
            let lines = alone.iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(lines, bad.map_or(20_000, |_| 8192));
            for ranks in [2, 3] {
                assert!(
                    ended(mpirun_of(ranks, arguments)) == alone,
                    "{arguments:?}, {ranks} ranks"
                );
            }
        }
    }
    println!("predict: two and three ranks print for a table what one prints, and its bad row");
}

/// Runs of which a random rank is killed end in the bits of the undisturbed ones.
fn endured() {
    let kills = ["endure", "--kills", "10", "--ranks", "2", "--json"];
    let output = updraft(&kills).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = table["runs"].as_array().unwrap();
    let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("kills"), sum("full_disks"), sum("read_only")), (10, 0, 0), "{table}");
    assert!(rows.len() == 2 && sum("ends") >= 2 && sum("kills_in_saves") > 0, "{table}");
    println!("endure: ten kills of a rank, and the same bits");

    let fewer = ["endure", "--kills", "12", "--ranks", "3", "--fewer-ranks", "--json"];
    let output = updraft(&fewer).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = table["runs"].as_array().unwrap();
    let kills = rows.iter().map(|row| row["kills"].as_u64().unwrap()).sum::<u64>();
    let farthest: Vec<_> = rows.iter().filter_map(|row| row["farthest_loss"].as_f64()).collect();
    assert!(kills == 12 && farthest.len() == rows.len(), "{table}");
    // Another number of ranks rounds differently.
    assert!(farthest.iter().any(|share| *share > 0.0), "{table}");
    println!(
        "endure: runs that continue on fewer ranks end within the noise of seeds: {farthest:?}"
    );
}

/// A command without a launcher.
fn updraft(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_updraft"))
        .args(arguments)
        .env("RAYON_NUM_THREADS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Starts two ranks of `train`, in a process group of their own as a shell does.
fn launch(runs: &Path, options: &[&str], sets: &[&str]) -> Child {
    let mut arguments = vec!["train", "--runs", runs.to_str().unwrap()];
    arguments.extend(SMALL.iter().chain(sets).flat_map(|set| ["--set", set]));
    launcher(options, &arguments)
}

/// Starts two ranks of a command by `launch`.
fn launcher(options: &[&str], arguments: &[&str]) -> Child {
    let arguments = [&["launch", "-n", "2"], options, &["--"], arguments].concat();
    Command::new(env!("CARGO_BIN_EXE_updraft"))
        .args(arguments)
        .env("RAYON_NUM_THREADS", "1")
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what} does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A rank is killed before the first checkpoint: the folder of that start does not stay.
fn launched_again_without_a_checkpoint(expected: &BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let late = ["train.checkpoint_every_steps=1000"];
    let child = launch(folder.path(), &["--restarts", "2"], &late);
    wait_until("the folder", || run_of(folder.path()).is_some());
    kill_rank_1(folder.path());
    let text = finished(child);
    assert_eq!(text.matches("2 ranks from the beginning").count(), 1, "{text}");
    assert!(weights(folder.path()) == *expected, "{text}");
    println!("launch: rank 1 was killed before a checkpoint, and one run folder is left");

    let folder = tempfile::tempdir().unwrap();
    let child = launch(folder.path(), &["--restarts", "0"], &late);
    wait_until("the folder", || run_of(folder.path()).is_some());
    kill_rank_1(folder.path());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("0 restarts used up"), "{text}");
    assert!(run_of(folder.path()).is_none(), "no run folder is left");
    println!("launch: without a restart that is left, no folder without a checkpoint stays");
}

/// Ctrl-C, which reaches the process group of `launch`.
fn interrupted(expected: &BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let child = launch(folder.path(), &[], &["train.checkpoint_every_steps=1000"]);
    wait_until("a step", || steps(folder.path()) > 0);
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    let text = finished(child);
    assert!(text.contains("stopped and saved"), "{text}");
    let run = run_of(folder.path()).unwrap();
    finished(mpirun(&["train", "--resume", run.to_str().unwrap()]));
    assert!(weights(folder.path()) == *expected);
    println!("launch: Ctrl-C saved, and the resumed run has the same checkpoint");
}

/// A rank of `launch` is killed: it starts the ranks again, which end in the same checkpoint.
fn launched(expected: &BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    let child = launch(folder.path(), &["--restarts", "2"], &[]);
    for after in [30, 110] {
        let started = Instant::now();
        while steps(folder.path()) < after {
            assert!(started.elapsed() < Duration::from_secs(120), "the run does not go on");
            std::thread::sleep(Duration::from_millis(5));
        }
        kill_rank_1(folder.path());
    }
    let text = finished(child);
    assert_eq!(text.matches("2 ranks from the newest checkpoint").count(), 2, "{text}");
    assert!(weights(folder.path()) == *expected, "{text}");
    println!("launch: rank 1 was killed twice, and the restarted ranks have the same checkpoint");

    let folder = tempfile::tempdir().unwrap();
    let child = launch(folder.path(), &["--restarts", "0"], &[]);
    while steps(folder.path()) < 30 {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_rank_1(folder.path());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("0 restarts used up"), "{text}");
}

/// A rank that is stopped, and does not end, ends the others after the timeout.
fn timed_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["train", "--runs", folder.path().to_str().unwrap()];
    arguments.extend(SMALL.iter().flat_map(|set| ["--set", set]));
    arguments.extend(["--set", "train.distributed.timeout=1"]);
    let child = mpirun(&arguments);
    while steps(folder.path()) < 30 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let started = Instant::now();
    signal_rank_1(folder.path(), "-STOP");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("waited 1 s for the others"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(30));
    println!("a rank that hangs ends the run after the timeout");
}

fn mpirun(arguments: &[&str]) -> Child {
    mpirun_of(2, arguments)
}

fn mpirun_of(ranks: usize, arguments: &[&str]) -> Child {
    Command::new("mpirun")
        .args(["-n", &ranks.to_string(), "--oversubscribe", "--bind-to", "none"])
        .args(["--mca", "btl_vader_single_copy_mechanism", "none"])
        .arg(env!("CARGO_BIN_EXE_updraft"))
        .args(arguments)
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .env("RAYON_NUM_THREADS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpirun has to be installed for this test")
}

fn finished(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

fn run_of(runs: &Path) -> Option<PathBuf> {
    let mut folders = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path());
    let first = folders.next();
    assert!(folders.next().is_none(), "one run folder");
    first
}

fn steps(runs: &Path) -> usize {
    let metrics = run_of(runs).map(|run| run.join("metrics.jsonl"));
    let text = metrics.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    text.matches("\"event\":\"step\"").count()
}

/// Every part of the newest checkpoint.
fn weights(runs: &Path) -> BTreeMap<String, String> {
    let run = run_of(runs).unwrap();
    let newest = list_checkpoints(&run.join("checkpoints")).unwrap().pop().unwrap();
    checkpoint_contents(&newest).unwrap()
}

/// Kills the process that is rank 1 of a run in this folder.
fn kill_rank_1(runs: &Path) {
    signal_rank_1(runs, "-9");
}

fn signal_rank_1(runs: &Path, signal: &str) {
    let has = |path: PathBuf, text: &str| {
        fs::read(path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
    };
    let folder = runs.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let mut rank = processes.filter(|process| {
        has(process.join("environ"), "OMPI_COMM_WORLD_RANK=1")
            && has(process.join("cmdline"), folder)
    });
    let process = rank.next().expect("rank 1 runs");
    let id = process.file_name().unwrap().to_str().unwrap();
    assert!(Command::new("kill").args([signal, id]).status().unwrap().success());
}
