//! The benchmark runner: built for release with the features that are compared, then run.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::cargo::Cargo;
use crate::{complain, limit, print, refuse, target};

/// The features of the runner that a build without them can be compared with.
const FEATURES: [&str; 4] = ["conv", "simd", "rayon", "x86-v4"];

/// The features of the runner that are off unless `--with` names them.
const EXTRAS: [&str; 8] =
    ["cuda", "rocm", "metal", "vulkan", "wgpu", "fusion", "autotune", "turbojpeg"];

/// Builds the runner, and a variant of it without each feature of `--compare`, and runs it.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Options { without, with, dry_run, rest } = match Options::read(arguments) {
        Ok(options) => options,
        Err(message) => return refuse(&message),
    };
    let mut variants = Vec::new();
    for feature in &without {
        let is_kept = |kept: &&str| kept != feature;
        let kept = FEATURES.into_iter().chain(with.iter().map(String::as_str)).filter(is_kept);
        variants.push((format!("without-{feature}"), build(kept)));
    }
    let build = build(FEATURES.into_iter().chain(with.iter().map(String::as_str)));
    if dry_run {
        for (_, build) in &variants {
            print(&Cargo::new(build).typed());
        }
        print(&Cargo::new(&build).typed());
        print(format!("updraft-bench {}", rest.join(" ")).trim_end());
        return ExitCode::SUCCESS;
    }
    let mut command = Command::new(program());
    for (name, build) in &variants {
        if let Err(code) = Cargo::new(build).run() {
            return code;
        }
        let folder = target().join("bench").join(name);
        let copy = folder.join(program().file_name().expect("the program has a name"));
        if let Err(error) =
            fs::create_dir_all(&folder).and_then(|()| fs::copy(program(), &copy).map(drop))
        {
            complain(&format!("error: `{}`: {error}", copy.display()));
            return ExitCode::FAILURE;
        }
        command.arg("--variant").arg(format!("{name}={}", copy.display()));
    }
    if let Err(code) = Cargo::new(&build).run() {
        return code;
    }
    if !matches!(rest.first().map(String::as_str), Some("compare" | "report" | "help")) {
        command.arg("--target").arg(target());
    }
    match command.args(&rest).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(130))
        }
        Err(error) => {
            complain(&format!("error: `{}` cannot be started: {error}", program().display()));
            ExitCode::FAILURE
        }
    }
}

/// Builds the runner with some features beside those that it always has.
pub(crate) fn build_with(with: &[&str]) -> Result<(), ExitCode> {
    let build = build(FEATURES.into_iter().chain(with.iter().copied()));
    print(&format!("> {}", Cargo::new(&build).typed()));
    Cargo::new(&build).run()
}

/// Runs the runner as it was built last, and ends it after a time.
///
/// # Errors
/// Why it did not come to its end.
pub(crate) fn run_built(arguments: &[&str], longest: Duration) -> Result<(), String> {
    let mut command = Command::new(program());
    if arguments.first() != Some(&"report") {
        command.arg("--target").arg(target());
    }
    let child = command.args(arguments).spawn();
    let mut child =
        child.map_err(|error| format!("`{}` cannot be started: {error}", program().display()))?;
    match limit::wait(&mut child, longest) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => {
            Err(format!("it ended with {status}; its rows and its output have the reason"))
        }
        Ok(None) => {
            let minutes = longest.as_secs() / 60;
            Err(format!("it was stopped after {minutes} min; entries before are kept"))
        }
        Err(error) => Err(format!("its end is not known: {error}")),
    }
}

fn build<'a>(features: impl Iterator<Item = &'a str>) -> String {
    let features: Vec<_> = features.collect();
    format!(
        "build --release -p updraft-bench --no-default-features --features {}",
        features.join(",")
    )
}

fn program() -> PathBuf {
    target().join("release").join(format!("updraft-bench{}", std::env::consts::EXE_SUFFIX))
}

/// The arguments of this command; all others are passed to the runner.
struct Options {
    without: Vec<String>,
    with: Vec<String>,
    dry_run: bool,
    rest: Vec<String>,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options =
            Self { without: Vec::new(), with: Vec::new(), dry_run: false, rest: Vec::new() };
        let comparable = [&FEATURES[..], &["turbojpeg"]].concat();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--dry-run" => options.dry_run = true,
                "--compare" => {
                    options.without.extend(known(argument, arguments.next(), &comparable)?);
                }
                "--with" => options.with.extend(known(argument, arguments.next(), &EXTRAS)?),
                other => options.rest.push(other.to_owned()),
            }
        }
        if let Some(off) = options.without.iter().find(|name| !options.is_on(name)) {
            return Err(format!("--compare {off} needs --with {off}: it is off otherwise"));
        }
        Ok(options)
    }

    fn is_on(&self, feature: &String) -> bool {
        FEATURES.contains(&feature.as_str()) || self.with.contains(feature)
    }
}

/// The names of a list separated by commas, each of which has to be known.
fn known(option: &str, list: Option<&String>, known: &[&str]) -> Result<Vec<String>, String> {
    let all = known.join(", ");
    let list = list.ok_or_else(|| format!("{option} needs one or more of {all}"))?;
    let names = list.split(',').map(|name| match known.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("{option} knows {all}; not `{name}`")),
    });
    names.collect()
}
