//! `gpu-report`: checks, tests and benchmarks of a card, written to a folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::super::command::{ended, exit, tested};
use super::super::extent::Extent;
use super::super::options::Options;
use super::super::suite::{EMULATED, Run};
use super::checks::{self, Check};
use super::entries::{self, Entry};
use super::facts::{self, Facts};
use super::folder::{self, Report, Timed};
use super::meter::Meter;
use super::size::{Bench, Size};
use crate::{bench, complain, print, refuse};

/// The longest that a benchmark may take: one that hangs must not keep the others from running.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The same of the first run, which installs the packages of the peers.
const FIRST_LIMIT: Duration = Duration::from_secs(90 * 60);

/// What the first run times: a product, only to open the device and to make the environment, so
/// that neither is among the samples of a benchmark.
const FIRST: &str = "matmul/f32-512x512x512";

/// Checks the machine, tests its card, times it beside PyTorch, and writes a folder.
pub(crate) fn report(arguments: &[String], dry_run: bool) -> ExitCode {
    match Options::read(arguments) {
        Ok(Options { with, json, .. }) if !with.is_empty() || json.is_some() => refuse(
            "`cargo xtask gpu-report` takes --device, --python, --to, --size, --quick, \
             --ignore-checks and --dry-run",
        ),
        Ok(Options { device, .. }) if device == "webgpu" => {
            refuse("`cargo xtask gpu-report` has no benchmarks for webgpu; use `--device wgpu`")
        }
        Ok(Options { to: Some(to), .. }) if is_taken(&to) => refuse(&format!(
            "`{}` of --to exists already; name a folder that does not, or an empty one",
            to.display()
        )),
        Ok(options) => exit(checked(&options, dry_run)),
        Err(message) => refuse(&message),
    }
}

/// Whether something is at this place but an empty folder: earlier results would be read as those
/// of this report.
fn is_taken(to: &Path) -> bool {
    match fs::read_dir(to) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Checks the machine, and starts if nothing is missing.
fn checked(options: &Options, dry_run: bool) -> Result<(), ExitCode> {
    let device = options.device.as_str();
    let facts = Facts::read(device, options.python.as_deref(), !dry_run);
    let checks = checks::checks(&facts, device);
    print(&format!("checks for `{device}`\n{}\n", checks::table(&checks)));
    let missing = checks::missing(&checks).join(", ");
    if missing.is_empty() || dry_run || options.ignores_checks {
        return made(options, &facts, checks, dry_run);
    }
    complain(&format!(
        "error: not ready for a report: {missing}; nothing was built. Follow the remedies above, \
         or try it nevertheless with --ignore-checks"
    ));
    Err(ExitCode::FAILURE)
}

/// Tests, times and writes the report.
fn made(
    options: &Options,
    facts: &Facts,
    checks: Vec<Check>,
    dry_run: bool,
) -> Result<(), ExitCode> {
    if let Some(to) = options.to.as_deref().filter(|_| !dry_run) {
        // Before the builds: a report that cannot be written takes an hour to fail else.
        fs::create_dir_all(to).map_err(|error| failed(format!("`{}`: {error}", to.display())))?;
    }
    let device = options.device.as_str();
    let extent = if options.quick { Extent::Quick } else { Extent::All };
    let Some(run) = tested(device, None, extent, dry_run)? else {
        plan(options, facts);
        return Ok(());
    };
    // A card on which tests fail is worth a report.
    let passed = ended(std::slice::from_ref(&run));
    let mut report = begun(options, facts, checks, run);
    let name = folder::free_name(report.unix_s, &report.adapter, &folder::places());
    let to = options.to.clone().unwrap_or_else(|| folder::reports().join(&name));
    let name = to.file_name().map_or(name, |name| name.to_string_lossy().into_owned());
    report.write(&to, &name).map_err(failed)?;
    print(&format!("entries of size `{}`: {}", report.size.name(), report.why_size));

    let features = Size::features(report.is_emulated);
    bench::build_with(&[&[device][..], features].concat())?;
    let python = options.python.as_deref();
    first_run(device, python);
    report.versions.extend(peers_versions(python));
    let meter = match report.is_emulated {
        true => Meter::Nothing("an emulated GPU has no sensors"),
        false => facts.meter(device, &report.adapter),
    };
    if let Meter::Nothing(why) = meter {
        report.unsampled = Some(why);
    }
    for bench in report.size.benches() {
        let (timed, burn) = timed(bench, &report, python, &meter, &to);
        if !report.versions.iter().any(|(name, _)| *name == "burn") {
            report.versions.extend(burn.map(|version| ("burn", version)));
        }
        report.timed.push(timed);
        report.write(&to, &name).map_err(failed)?;
    }
    conclude(&report, &to, passed)
}

/// What is known before the benchmarks.
fn begun(options: &Options, facts: &Facts, checks: Vec<Check>, run: Run) -> Report {
    let adapter = run.adapters.first().cloned().unwrap_or_default();
    let is_emulated = adapter.ends_with(EMULATED);
    let (size, why_size) = chosen(options, is_emulated, facts, Some(&adapter));
    let mut versions = vec![("system", facts.os.to_owned())];
    let card = facts.nvidia_card_of(&options.device, &adapter).filter(|_| !is_emulated);
    for (name, version) in [
        ("commit", facts.commit.clone()),
        ("cargo", facts.cargo.clone()),
        ("rustc", facts.rustc.clone()),
        ("driver", card.map(|card| card.driver.clone())),
    ] {
        versions.extend(version.map(|version| (name, version)));
    }
    Report {
        unix_s: folder::now(),
        device: options.device.clone(),
        adapter,
        is_emulated,
        size,
        why_size,
        checks,
        versions,
        card: card.map(super::nvidia::Card::json),
        unsampled: None,
        suite: vec![run],
        timed: Vec::new(),
    }
}

fn chosen(
    options: &Options,
    is_emulated: bool,
    facts: &Facts,
    adapter: Option<&str>,
) -> (Size, String) {
    match options.size {
        Some(size) => (size, "named by --size".to_owned()),
        None => Size::of(is_emulated, facts.free_card_mib(&options.device, adapter)),
    }
}

/// Opens the device and makes the environment of the peers; what fails there fails again, and is
/// reported then.
fn first_run(device: &str, python: Option<&str>) {
    let mut arguments = vec![FIRST, "--device", device, "--peers"];
    arguments.extend(["--samples", "1", "--sample-ms", "1"]);
    arguments.extend(python.into_iter().flat_map(|python| ["--python", python]));
    print(&format!("> {}", typed(&arguments)));
    if let Err(why) = bench::run_built(&arguments, FIRST_LIMIT) {
        complain(&format!("warning: {why}"));
    }
}

/// Versions of the peers' Python and packages.
fn peers_versions(python: Option<&str>) -> Vec<(&'static str, String)> {
    let Ok(python) = facts::peers_python(python) else { return Vec::new() };
    if !python.is_complete {
        // The environment was not made.
        return Vec::new();
    }
    let mut versions = vec![("Python", python.version_text())];
    for name in super::python::PACKAGES {
        versions.extend(python.packages.get(name).map(|version| (name, version.clone())));
    }
    versions.extend(python.platform.map(|platform| ("PyTorch is for", platform)));
    versions
}

/// Runs a benchmark while the card is sampled; also returns the version of burn.
fn timed(
    bench: Bench,
    report: &Report,
    python: Option<&str>,
    meter: &Meter,
    to: &Path,
) -> (Timed, Option<String>) {
    let run = to.join(bench.name);
    let run_text = run.to_string_lossy();
    let arguments = arguments(bench, &report.device, report.size, python, &run_text);
    print(&format!("> {}", typed(&arguments)));
    let before = meter.sample();
    let running = meter.start();
    let started = Instant::now();
    let ended = bench::run_built(&arguments, LIMIT);
    let seconds = started.elapsed().as_secs_f64();
    let during = running.stop();
    let around = [before, meter.sample()];
    let read = entries::read(&run);
    let written = match &read {
        Ok(_) => bench::run_built(&["report", &run_text], LIMIT),
        Err(why) => Err(why.clone()),
    };
    let failure = ended.and(written).err();
    if let Some(why) = &failure {
        complain(&format!("error: benchmark `{}`: {why}", bench.name));
    }
    let (entries, burn) = read.unwrap_or_default();
    (Timed { bench, seconds, failure, entries, around, during }, burn)
}

/// The arguments of the runner.
fn arguments<'a>(
    bench: Bench,
    device: &'a str,
    size: Size,
    python: Option<&'a str>,
    run: &'a str,
) -> Vec<&'a str> {
    let mut arguments = vec![bench.filter, "--device", device, "--peers", "--save-to", run];
    arguments.extend(size.effort());
    arguments.extend(python.into_iter().flat_map(|python| ["--python", python]));
    arguments
}

fn typed(arguments: &[&str]) -> String {
    format!("updraft-bench {}", arguments.join(" "))
}

/// Prints what a dry run would time, by what is known without a build.
fn plan(options: &Options, facts: &Facts) {
    let device = options.device.as_str();
    let is_emulated = !facts.shows_card && matches!(device, "wgpu" | "vulkan");
    let (size, why) = chosen(options, is_emulated, facts, None);
    print(&format!("entries of size `{}`: {why}", size.name()));
    let to = options.to.clone().unwrap_or_else(|| folder::reports().join("DATE-CARD"));
    for bench in size.benches() {
        let run = to.join(bench.name);
        let run = run.to_string_lossy();
        let arguments = arguments(bench, device, size, options.python.as_deref(), &run);
        print(&format!("> {}", typed(&arguments)));
    }
    print(&format!("would be written to {}", to.display()));
}

/// Prints the result; an error if a test failed, or a benchmark did not come to its end.
fn conclude(report: &Report, to: &Path, passed: Result<(), ExitCode>) -> Result<(), ExitCode> {
    let with_ratio = |entry: &Entry| Some(format!("{}\n  {}", entry.id, entry.beside_plain()?));
    let entries = report.timed.iter().flat_map(|timed| &timed.entries);
    let ratios: Vec<_> = entries.filter_map(with_ratio).collect();
    if !ratios.is_empty() {
        print(&format!("\n{}", ratios.join("\n")));
    }
    if report.is_emulated {
        print("the processor emulates this GPU: the times say nothing about cards");
    }
    report.faults().iter().for_each(|fault| complain(&format!("error: {fault}")));
    let page: PathBuf = to.join("index.html");
    print(&format!("written to {}", page.display()));
    if !report.is_emulated {
        print(
            "to add it: copy the folder to benches/runs, and the rows at the end of the\n\
             page to the table of its README.md",
        );
    }
    passed?;
    if report.faults().is_empty() { Ok(()) } else { Err(ExitCode::FAILURE) }
}

fn failed(message: String) -> ExitCode {
    complain(&format!("error: {message}"));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target;

    /// Earlier results would be read as those of this report.
    #[test]
    fn a_report_is_written_to_a_folder_that_is_empty_or_not_there() {
        let folder = target().join("tmp").join("gpu-report-to");
        let _ = fs::remove_dir_all(&folder);
        assert!(!is_taken(&folder));
        fs::create_dir_all(&folder).unwrap();
        assert!(!is_taken(&folder));
        fs::write(folder.join("report.json"), "{}").unwrap();
        assert!(is_taken(&folder));
        assert!(is_taken(&folder.join("report.json")));
    }

    #[test]
    fn a_benchmark_has_the_options_of_its_size() {
        let bench = Size::Small.benches()[1];
        let small = arguments(bench, "wgpu", Size::Small, Some("python3"), "to/kan");
        let expected = [
            "kan/training-b256-512to512-*",
            "--device",
            "wgpu",
            "--peers",
            "--save-to",
            "to/kan",
            "--samples",
            "3",
            "--python",
            "python3",
        ];
        assert_eq!(small, expected);
        let full = arguments(bench, "cuda", Size::Full, None, "to/kan");
        assert_eq!(full.len(), 6);
    }
}
