//! `fuzz`: runs every fuzz target for an equal share of the time, under AddressSanitizer.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::cargo::Cargo;
use crate::fuzz_history::{Outcome, counted, processor_s, record, recorded, table, totals};
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
    ["-timeout=30", "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=1"];

/// At most so many bytes of inputs are committed for a target.
const KEPT_BYTES: u64 = 24 << 10;

/// At most so many inputs are committed for a target, of all lengths.
const KEPT_FILES: usize = 64;

const USAGE: &str = "usage: cargo xtask fuzz [--minutes N] [--target NAME]... [--without-burn] [--keep] \
                     [--dry-run]";

/// The parsed arguments.
struct Asked {
    /// Time for all targets together.
    minutes: f64,
    /// Names of the targets to run; all targets if empty.
    targets: Vec<String>,
    /// Minimize and commit the inputs instead of finding new ones.
    keep: bool,
    /// Build the readers that need no burn, and run their targets only.
    without_burn: bool,
}

/// A target as listed by the program.
struct Listed {
    name: String,
    flags: Vec<String>,
}

pub(crate) fn run(arguments: &[String], dry_run: bool) -> ExitCode {
    let asked = match Asked::parse(arguments) {
        Ok(asked) => asked,
        Err(message) => return refuse(&format!("{message}; {USAGE}")),
    };
    if let Some(missing) = missing() {
        return refuse(&format!("`cargo xtask fuzz` needs {missing}"));
    }
    let without = if asked.without_burn { " --no-default-features" } else { "" };
    let arguments = format!("{}{without}", BUILD.arguments);
    let build = Cargo { arguments: &arguments, ..BUILD };
    print(&format!("> {}", build.typed()));
    if dry_run {
        match asked.keep {
            true => print("> the inputs of every target, minimized"),
            false => print(&format!("> every target, {} minutes together", asked.minutes)),
        }
        return ExitCode::SUCCESS;
    }
    // The versions of the workspace; cargo adds what only this package needs.
    if let Err(error) = fs::copy(root().join("Cargo.lock"), root().join("fuzz/Cargo.lock")) {
        complain(&format!("error: `fuzz/Cargo.lock`: {error}"));
        return ExitCode::FAILURE;
    }
    if let Err(code) = build.run() {
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
        let mut asked =
            Self { minutes: 60.0, targets: Vec::new(), keep: false, without_burn: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("`{argument}` needs a value"));
            match argument.as_str() {
                "--dry-run" => {}
                "--keep" => asked.keep = true,
                "--without-burn" => asked.without_burn = true,
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
    if asked.keep {
        for target in chosen {
            let (files, bytes) = keep(target)?;
            print(&format!("{:<20} {files:>6} inputs {bytes:>8} bytes", target.name));
        }
        return Ok(true);
    }
    let seconds = (asked.minutes * 60.0 / chosen.len() as f64).ceil() as u64;
    let mut is_clean = true;
    for target in chosen {
        let outcome = one(target, seconds)?;
        let word = if outcome.is_clean { "clean" } else { "FAULT" };
        print(&format!(
            "{:<20} {:>12} executions {:>8.1} s {:>6} inputs  {word}",
            target.name, outcome.executions, outcome.seconds, outcome.inputs
        ));
        record(&target.name, &outcome)?;
        is_clean &= outcome.is_clean;
    }
    print(&format!("\nall runs so far:\n{}", table(&totals(&recorded()))));
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

/// Finds new inputs of a target for so many seconds.
fn one(listed: &Listed, seconds: u64) -> Result<Outcome, String> {
    let name = &listed.name;
    let inputs = corpus().join(name);
    let log = root().join("target/fuzz/log");
    for folder in [&inputs, &log, &found()] {
        made(folder)?;
    }
    let begun = processor_s();
    let mut arguments = vec![inputs.clone().into_os_string()];
    arguments.extend(committed(name).is_dir().then(|| committed(name).into_os_string()));
    arguments.push(format!("-max_total_time={seconds}").into());
    arguments.push(format!("-artifact_prefix={}/{name}-", found().display()).into());
    let (is_clean, text) = ran(listed, &log.join(name), Some(&inputs), &arguments)?;
    let inputs = fs::read_dir(&inputs).map_or(0, Iterator::count);
    Ok(Outcome { executions: counted(&text), seconds: processor_s() - begun, inputs, is_clean })
}

/// Minimizes the inputs of a target to a few that reach the same code, and makes them the
/// committed ones; returns their number and bytes.
fn keep(listed: &Listed) -> Result<(usize, u64), String> {
    let name = &listed.name;
    let fresh = root().join("target/fuzz/kept").join(name);
    let _ = fs::remove_dir_all(&fresh);
    for folder in [&fresh, &corpus().join(name), &committed(name)] {
        made(folder)?;
    }
    let folders = [&fresh, &committed(name), &corpus().join(name)];
    let mut arguments: Vec<OsString> = vec!["-set_cover_merge=1".into()];
    arguments.extend(folders.map(|folder| folder.clone().into_os_string()));
    let log = root().join("target/fuzz/kept.log");
    let (is_clean, text) = ran(listed, &log, None, &arguments)?;
    if !is_clean {
        return Err(format!("`{name}` could not be minimized: {text}"));
    }
    let said = |folder: &Path| {
        let folder = folder.display().to_string();
        move |error: io::Error| format!("`{folder}`: {error}")
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(&fresh).map_err(said(&fresh))? {
        let path = entry.map_err(said(&fresh))?.path();
        files.push((fs::metadata(&path).map_err(said(&path))?.len(), path));
    }
    files.sort();
    fs::remove_dir_all(committed(name)).map_err(said(&committed(name)))?;
    made(&committed(name))?;
    let (mut kept, mut bytes) = (0, 0);
    let stride = files.len().div_ceil(KEPT_FILES).max(1);
    for (length, path) in files.iter().step_by(stride) {
        // One is kept in any case.
        if kept > 0 && bytes + length > KEPT_BYTES {
            break;
        }
        let to = committed(name).join(path.file_name().unwrap_or_default());
        fs::copy(path, &to).map_err(said(&to))?;
        (kept, bytes) = (kept + 1, bytes + length);
    }
    Ok((kept, bytes))
}

/// Runs a target in a folder of its own and returns whether it ended without a fault, and its log.
fn ran(
    listed: &Listed,
    log: &Path,
    seeds: Option<&Path>,
    arguments: &[OsString],
) -> Result<(bool, String), String> {
    let scratch = Scratch::new()?;
    let file = File::create(log).map_err(|error| format!("`{}`: {error}", log.display()))?;
    let mut command = Command::new(program());
    command.env("UPDRAFT_FUZZ", &listed.name).env("TMPDIR", &scratch.0);
    if let Some(folder) = seeds {
        command.env("UPDRAFT_FUZZ_SEEDS", folder);
    }
    command.args(arguments).args(FLAGS).args(&listed.flags).current_dir(&scratch.0);
    let status = command.stdout(Stdio::null()).stderr(file).status();
    let status = status.map_err(|error| format!("`{}`: {error}", program().display()))?;
    let text = fs::read(log).map_err(|error| format!("`{}`: {error}", log.display()))?;
    Ok((status.success(), String::from_utf8_lossy(&text).into_owned()))
}

fn made(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("`{}`: {error}", folder.display()))
}

/// The inputs of a target that are part of the repository.
fn committed(name: &str) -> PathBuf {
    root().join("fuzz/corpus").join(name)
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

#[cfg(test)]
mod tests {
    use super::*;

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
