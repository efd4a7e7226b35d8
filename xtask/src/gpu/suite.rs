//! The tests of the code for GPUs, built once for a backend and run case by case.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::{Value, json};

use super::cases::{self, Case};
use super::driver::{INSTALL, not_tested};
use super::extent::Extent;
use super::outcome::{Counts, Outcome, table};
use crate::cargo::Cargo;
use crate::{complain, limit, print, target, tidy};

/// The variable with which a test that finds no device fails.
const NEEDS_GPU: &str = "UPDRAFT_TEST_NEEDS_GPU";

/// The test that prints the adapters, each in a line after [`ADAPTER`].
const LISTING: (&str, &str) = ("device", "adapters::every_adapter_has_a_name");
const ADAPTER: &str = "adapter: ";

/// The longest that the tests of a program may take: they take minutes on an emulated GPU, so that
/// longer ones hang.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// The end of the name of an adapter that is no card.
pub(super) const EMULATED: &str = ", emulated on the processor";

/// A build for a backend.
pub(super) struct Suite<'a> {
    pub(super) backend: &'a str,
    /// Another feature of burn that the build has.
    pub(super) with: Option<&'a str>,
    pub(super) extent: Extent,
    pub(super) without_adapter: WithoutAdapter,
}

/// What is done if the backend finds no adapter.
#[derive(Debug, Clone, Copy)]
pub(super) enum WithoutAdapter {
    /// An error.
    Fail,
    /// The tests run, which shows that nothing panics.
    Run,
    /// No test runs, which is printed.
    Skip,
}

/// What the tests of a build gave.
pub(super) struct Run {
    pub(super) backend: String,
    pub(super) with: Option<String>,
    pub(super) extent: Extent,
    /// The adapters that the backend found.
    pub(super) adapters: Vec<String>,
    /// Of the sources that only builds for GPUs compile, before the build.
    pub(super) digest: Option<String>,
    pub(super) outcomes: Vec<Outcome>,
}

/// A test program.
struct Program {
    /// The folder of its crate in `crates/`.
    folder: String,
    /// Where cargo runs its tests.
    directory: PathBuf,
    path: PathBuf,
}

impl Suite<'_> {
    /// Builds and runs the tests, and prints a table; `None` in a dry run, or if no test runs.
    pub(super) fn run(&self, dry_run: bool) -> Result<Option<Run>, ExitCode> {
        let build = cases::build(self.backend, self.with, self.extent).map_err(failed)?;
        let build = Cargo::new(&build);
        print(&format!("> {}", build.typed()));
        if dry_run {
            return Ok(None);
        }
        let digest = tidy::device_digest().map_err(failed)?;
        let started = Instant::now();
        let programs = programs(&build.messages()?);
        print(&format!("  {:.1} s", started.elapsed().as_secs_f64()));
        let adapters = adapters(&programs)?;
        if adapters.is_empty() {
            let message = format!("the backend `{}` finds no adapter", self.backend);
            match self.without_adapter {
                WithoutAdapter::Fail => {
                    return Err(failed(format!("{message}: {INSTALL} for `--device wgpu`")));
                }
                WithoutAdapter::Run => {
                    print(&format!("{message}: its tests only show that nothing panics"));
                }
                WithoutAdapter::Skip => {
                    print(&not_tested(&format!("{message}: {INSTALL}")));
                    return Ok(None);
                }
            }
        }
        adapters.iter().for_each(|adapter| print(&format!("adapter: {adapter}")));
        let mut outcomes = Vec::new();
        for case in self.extent.cases() {
            print(&format!("> crates/{}: {}", case.folder, case.proves));
            let outcome = run_case(case, self.extent, &programs, !adapters.is_empty());
            let Counts { passed, failed, .. } = outcome.counts;
            print(&format!("  {passed} passed, {failed} failed, {:.1} s", outcome.seconds));
            outcomes.push(outcome);
        }
        let with = self.with.map(|with| format!(" with {with}")).unwrap_or_default();
        print(&format!("\n{}{with}: {}", self.backend, adapters.join(", ")));
        print(&table(&outcomes));
        Ok(Some(Run {
            backend: self.backend.to_owned(),
            with: self.with.map(str::to_owned),
            extent: self.extent,
            adapters,
            digest,
            outcomes,
        }))
    }
}

impl Run {
    /// The cases that did not pass.
    pub(super) fn faults(&self) -> Vec<String> {
        let of = |outcome: &Outcome| {
            let fault = outcome.fault.as_ref()?;
            Some(format!("crates/{} on {}: {fault}", outcome.folder, self.backend))
        };
        self.outcomes.iter().filter_map(of).collect()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "backend": self.backend, "with": self.with, "adapters": self.adapters,
            "digest": self.digest, "quick": self.extent == Extent::Quick,
            "cases": self.outcomes.iter().map(Outcome::json).collect::<Vec<_>>(),
        })
    }
}

/// The test programs in the messages of cargo.
fn programs(messages: &[Value]) -> Vec<Program> {
    let of = |message: &Value| {
        let is_test = message["profile"]["test"] == true;
        let path = message["executable"].as_str().filter(|_| is_test)?;
        let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
        let folder = directory.file_name()?.to_string_lossy().into_owned();
        Some(Program { folder, directory: directory.to_owned(), path: path.into() })
    };
    messages.iter().filter_map(of).collect()
}

/// The adapters that the backend of the build finds, by their names.
fn adapters(programs: &[Program]) -> Result<Vec<String>, ExitCode> {
    let (folder, test) = LISTING;
    let mut printed = String::new();
    let mut tests = 0;
    for program in programs.iter().filter(|program| program.folder == folder) {
        let ended = program.run(&[test, "--exact", "--nocapture"], false);
        let (text, status) = ended.map_err(failed)?;
        if !status.success() {
            return Err(failed(format!("the adapters cannot be listed:\n{text}")));
        }
        tests += Counts::read(&text).map_or(0, |counts| counts.passed);
        printed.push_str(&text);
    }
    if tests == 0 {
        return Err(failed(format!(
            "`crates/{folder}` has no test `{test}`, which lists adapters"
        )));
    }
    // The line may begin with the name of the test.
    let of = |line: &str| line.split_once(ADAPTER).map(|(_, name)| name.trim().to_owned());
    Ok(printed.lines().filter_map(of).collect())
}

fn run_case(case: &Case, extent: Extent, programs: &[Program], has_adapter: bool) -> Outcome {
    let started = Instant::now();
    let mut counts = Counts::default();
    let mut faults = Vec::new();
    for program in programs.iter().filter(|program| program.folder == case.folder) {
        match program.run(&extent.arguments(case), has_adapter) {
            Ok((text, status)) => {
                let of_program = Counts::read(&text);
                counts = counts.plus(of_program.unwrap_or_default());
                if !status.success() {
                    complain(&text);
                }
                match of_program {
                    Some(Counts { failed: 0, .. }) if status.success() => {}
                    Some(Counts { failed: 0, .. }) => {
                        faults.push(format!("its tests passed, and then it ended with {status}"));
                    }
                    Some(Counts { failed, .. }) => faults.push(format!("{failed} tests failed")),
                    None => faults.push(format!("the program ended early ({status})")),
                }
            }
            Err(error) => faults.push(error),
        }
    }
    if counts.passed == 0 && faults.is_empty() {
        faults.push(format!("no test has `{}` in its name", case.filter));
    }
    Outcome {
        folder: case.folder,
        proves: case.proves,
        counts,
        seconds: started.elapsed().as_secs_f64(),
        fault: (!faults.is_empty()).then(|| faults.join(", ")),
    }
}

impl Program {
    /// Runs it as cargo does, and returns what it printed.
    fn run(&self, arguments: &[&str], needs_gpu: bool) -> Result<(String, ExitStatus), String> {
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(&self.directory);
        command.env("CARGO_MANIFEST_DIR", &self.directory);
        if needs_gpu {
            command.env(NEEDS_GPU, "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let at_start =
            |error: io::Error| format!("`{}` cannot be started: {error}", self.path.display());
        let mut child = command.spawn().map_err(at_start)?;
        let printed = [reading(child.stdout.take()), reading(child.stderr.take())];
        let at_end = |error: io::Error| {
            format!("the end of `{}` is not known: {error}", self.path.display())
        };
        let status = limit::wait(&mut child, LIMIT).map_err(at_end)?;
        let text = printed.map(|printed| printed.join().unwrap_or_default()).concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        // All of it, to read what passed.
        if let Err(error) = self.log(&text) {
            complain(&format!("warning: `{}`: {error}", log_folder().display()));
        }
        match status {
            Some(status) => Ok((text, status)),
            None => Err(format!(
                "a test hangs: the program was stopped after {} min; its output is in `{}`",
                LIMIT.as_secs() / 60,
                log_folder().display()
            )),
        }
    }

    fn log(&self, text: &str) -> io::Result<()> {
        fs::create_dir_all(log_folder())?;
        let name = self.path.file_stem().unwrap_or_default().to_string_lossy();
        fs::write(log_folder().join(format!("{}-{name}.txt", self.folder)), text)
    }
}

/// Reads a pipe to its end while the program runs, which waits if a pipe is full.
fn reading(pipe: Option<impl io::Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut printed = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is kept.
            let _ = pipe.read_to_end(&mut printed);
        }
        printed
    })
}

fn log_folder() -> PathBuf {
    target().join("test-device")
}

fn failed(message: impl std::fmt::Display) -> ExitCode {
    complain(&format!("error: {message}"));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_those_of_tests_and_have_the_folder_of_their_crate() {
        let message = |folder: &str, is_test: bool, executable: Option<&str>| {
            json!({
                "reason": "compiler-artifact", "profile": { "test": is_test },
                "manifest_path": format!("/w/crates/{folder}/Cargo.toml"),
                "executable": executable,
            })
        };
        let messages = [
            message("kan", true, Some("/w/target/gpu/deps/it-1")),
            message("kan", false, None),
            message("cli", false, Some("/w/target/gpu/updraft")),
            json!({ "reason": "build-finished", "success": true }),
        ];
        let programs = programs(&messages);
        assert_eq!(programs.len(), 1);
        assert_eq!(programs[0].folder, "kan");
        assert_eq!(programs[0].directory, Path::new("/w/crates/kan"));
        assert_eq!(programs[0].path, Path::new("/w/target/gpu/deps/it-1"));
    }

    #[test]
    fn a_case_without_a_program_is_a_fault() {
        let case = Extent::Quick.cases().find(|case| case.folder == "kan").unwrap();
        let outcome = run_case(case, Extent::Quick, &[], true);
        assert_eq!(outcome.fault.as_deref(), Some("no test has `cube` in its name"));
    }
}
