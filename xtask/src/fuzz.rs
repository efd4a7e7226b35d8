//! `fuzz`: runs every fuzz target for an equal share of the time, under AddressSanitizer.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::cargo::Cargo;
use crate::{complain, is_here, print, refuse, root};

/// The only target on which Rust's AddressSanitizer and libFuzzer were tested.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The build with the flags of cargo-fuzz, which itself needs a nightly compiler: with
/// `RUSTC_BOOTSTRAP` the pinned compiler accepts the flag of the sanitizer.
const BUILD: Cargo<'_> = Cargo {
    arguments: "build --release --manifest-path fuzz/Cargo.toml --target-dir target/fuzz \
                --target x86_64-unknown-linux-gnu",
    environment: &[
        ("RUSTC_BOOTSTRAP", "1"),
        (
            "RUSTFLAGS",
            "--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
             -Cllvm-args=-sanitizer-coverage-level=4 \
             -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
             -Cllvm-args=-sanitizer-coverage-pc-table \
             -Cllvm-args=-sanitizer-coverage-trace-compares",
        ),
    ],
};

/// Flags of libFuzzer for every target: an input that exceeds the time or memory limit is a fault.
const FLAGS: [&str; 4] =
    ["-timeout=20", "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=1"];

const USAGE: &str = "usage: cargo xtask fuzz [--minutes N] [--target NAME]... [--dry-run]";

/// The parsed arguments.
struct Asked {
    /// Time for all targets together.
    minutes: f64,
    /// Names of the targets to run; all targets if empty.
    targets: Vec<String>,
}

/// A target as listed by the program.
struct Listed {
    name: String,
    flags: Vec<String>,
}

/// The result of one run of a target.
struct Outcome {
    executions: u64,
    seconds: u64,
    inputs: usize,
    is_clean: bool,
}

pub(crate) fn run(arguments: &[String], dry_run: bool) -> ExitCode {
    let asked = match Asked::parse(arguments) {
        Ok(asked) => asked,
        Err(message) => return refuse(&format!("{message}; {USAGE}")),
    };
    if let Some(missing) = missing() {
        return refuse(&format!("`cargo xtask fuzz` needs {missing}"));
    }
    print(&format!("> {}", BUILD.typed()));
    if dry_run {
        print(&format!("> every target, {} minutes together", asked.minutes));
        return ExitCode::SUCCESS;
    }
    if let Err(code) = BUILD.run() {
        return code;
    }
    match fuzz(&asked) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            complain(&format!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}

impl Asked {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut asked = Self { minutes: 60.0, targets: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
            match argument.as_str() {
                "--dry-run" => {}
                "--minutes" => {
                    let text = value()?;
                    let minutes = text.parse::<f64>().ok().filter(|minutes| *minutes > 0.0);
                    asked.minutes = minutes
                        .filter(|minutes| minutes.is_finite())
                        .ok_or(format!("--minutes is {text}; it must be a number above 0"))?;
                }
                "--target" => asked.targets.push(value()?.clone()),
                other => return Err(format!("there is no argument `{other}`")),
            }
        }
        Ok(asked)
    }
}

/// A missing requirement of the build, if any.
fn missing() -> Option<String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Some(format!("the target {TARGET}"));
    }
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if !is_here(&compiler) {
        return Some(format!("a C++ compiler for libFuzzer; `{compiler}` does not start"));
    }
    let printed = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(root())
        .output();
    let folder = printed.map(|printed| String::from_utf8_lossy(&printed.stdout).trim().to_owned());
    let files = folder.ok().and_then(|folder| fs::read_dir(folder).ok());
    let mut names = files.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let has_sanitizer = names.any(|name| name.to_string_lossy().contains("rt.asan"));
    (!has_sanitizer).then(|| format!("a compiler with AddressSanitizer for {TARGET}"))
}

/// Runs the targets and returns whether all of them ran without a fault.
fn fuzz(asked: &Asked) -> Result<bool, String> {
    let all = list()?;
    if let Some(unknown) = asked.targets.iter().find(|name| all.iter().all(|t| t.name != **name)) {
        let names: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
        return Err(format!(
            "there is no target `{unknown}`; the targets are {}",
            names.join(", ")
        ));
    }
    let is_asked =
        |target: &&Listed| asked.targets.is_empty() || asked.targets.contains(&target.name);
    let chosen: Vec<&Listed> = all.iter().filter(is_asked).collect();
    let seconds = (asked.minutes * 60.0 / chosen.len() as f64).ceil() as u64;
    let mut is_clean = true;
    for target in chosen {
        let outcome = one(target, seconds)?;
        let word = if outcome.is_clean { "clean" } else { "FAULT" };
        print(&format!(
            "{:<20} {:>12} executions {:>6} s {:>6} inputs  {word}",
            target.name, outcome.executions, outcome.seconds, outcome.inputs
        ));
        record(&target.name, &outcome)?;
        is_clean &= outcome.is_clean;
    }
    print("\nall runs so far:");
    for (name, [executions, seconds, faults]) in totals(&recorded()) {
        print(&format!("{name:<20} {executions:>12} executions {seconds:>6} s {faults:>6} faults"));
    }
    if !is_clean {
        complain(&format!("inputs that cause the faults are in {}", found().display()));
    }
    Ok(is_clean)
}

fn program() -> PathBuf {
    root().join("target/fuzz").join(TARGET).join("release/updraft-fuzz")
}

fn found() -> PathBuf {
    root().join("fuzz/found")
}

/// Inputs that were found on this machine, in addition to the committed ones in `fuzz/corpus`.
fn corpus() -> PathBuf {
    root().join("target/fuzz/corpus")
}

fn list() -> Result<Vec<Listed>, String> {
    let output = Command::new(program()).env("UPDRAFT_FUZZ", "list").output();
    let output = output.map_err(|error| format!("`{}`: {error}", program().display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let listed = text.lines().filter_map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        Some(Listed { name: words.next()?, flags: words.collect() })
    });
    Ok(listed.collect())
}

fn one(listed: &Listed, seconds: u64) -> Result<Outcome, String> {
    let name = &listed.name;
    let inputs = corpus().join(name);
    let scratch = Scratch::new()?;
    let log = root().join("target/fuzz/log");
    for folder in [&inputs, &log, &found()] {
        fs::create_dir_all(folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    }
    let log = log.join(name);
    let file = File::create(&log).map_err(|error| format!("`{}`: {error}", log.display()))?;
    let status = Command::new(program())
        .env("UPDRAFT_FUZZ", name)
        .env("TMPDIR", &scratch.0)
        .arg(&inputs)
        .args(Some(root().join("fuzz/corpus").join(name)).filter(|folder| folder.is_dir()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/{name}-", found().display()))
        .args(FLAGS)
        .args(&listed.flags)
        .current_dir(&scratch.0)
        .stdout(Stdio::null())
        .stderr(file)
        .status()
        .map_err(|error| format!("`{}`: {error}", program().display()))?;
    let text = fs::read(&log).map_err(|error| format!("`{}`: {error}", log.display()))?;
    let (executions, seconds) = counted(&String::from_utf8_lossy(&text));
    let inputs = fs::read_dir(&inputs).map_or(0, Iterator::count);
    Ok(Outcome { executions, seconds, inputs, is_clean: status.success() })
}

/// A folder in memory if the system has one, because targets write thousands of files a second.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, String> {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = place.join(format!("updraft-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Executions and seconds from the output of libFuzzer; for a run that ended with a fault, the
/// executions of its last status line.
fn counted(log: &str) -> (u64, u64) {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let executions = log
        .lines()
        .find_map(|line| number(line.strip_prefix("stat::number_of_executed_units:")?))
        .or_else(|| {
            let mut lines = log.lines().rev();
            lines.find_map(|line| number(line.strip_prefix('#')?.split(['\t', ':']).next()?))
        });
    let seconds = log.lines().find_map(|line| {
        let (_, time) = line.strip_prefix("Done ")?.split_once(" runs in ")?;
        number(time.split(' ').next()?)
    });
    (executions.unwrap_or(0), seconds.unwrap_or(0))
}

fn history() -> PathBuf {
    root().join("target/fuzz/history.tsv")
}

/// Appends a run to the history.
fn record(name: &str, outcome: &Outcome) -> Result<(), String> {
    let Outcome { executions, seconds, is_clean, .. } = outcome;
    let line = format!("{name}\t{executions}\t{seconds}\t{}\n", u8::from(!is_clean));
    let file = OpenOptions::new().create(true).append(true).open(history());
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| format!("`{}`: {error}", history().display()))
}

fn recorded() -> String {
    fs::read_to_string(history()).unwrap_or_default()
}

/// Executions, seconds and faults of each target, over all runs.
fn totals(history: &str) -> BTreeMap<&str, [u64; 3]> {
    let mut totals: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for line in history.lines() {
        let mut fields = line.split('\t');
        let name = fields.next().unwrap_or_default();
        let sums = totals.entry(name).or_default();
        for (sum, field) in sums.iter_mut().zip(fields) {
            *sum += field.parse::<u64>().unwrap_or(0);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_counted_from_the_output_also_after_a_fault() {
        let whole = "#2\tINITED cov: 3\n#99\tDONE cov: 3\nDone 99 runs in 11 second(s)\n\
                     stat::number_of_executed_units: 99\n";
        assert_eq!(counted(whole), (99, 11));
        assert_eq!(counted("#2\tINITED cov: 3\n#57\tNEW cov: 4\nthread panicked\n"), (57, 0));
        assert_eq!(counted(""), (0, 0));
    }

    #[test]
    fn runs_of_a_target_are_summed() {
        let history = "idx\t5\t1\t0\ncsv\t7\t2\t1\nidx\t6\t3\t0\n";
        let totals = totals(history);
        assert_eq!((totals["idx"], totals["csv"]), ([11, 4, 0], [7, 2, 1]));
    }

    #[test]
    fn arguments_are_checked() {
        let parse = |words: &[&str]| {
            Asked::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let asked = parse(&["--minutes", "2.5", "--target", "idx"]).ok().unwrap();
        assert_eq!((asked.minutes, asked.targets), (2.5, vec!["idx".to_owned()]));
        for (words, expected) in [
            (&["--minutes"][..], "needs a value"),
            (&["--minutes", "0"], "must be a number above 0"),
            (&["--minutes", "inf"], "must be a number above 0"),
            (&["--all"], "no argument `--all`"),
        ] {
            assert!(parse(words).err().unwrap().contains(expected), "{words:?}");
        }
    }
}
