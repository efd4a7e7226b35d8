//! `test-device` and `gpu-report`: the kernels for GPUs on a card, checked and then timed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cargo::Cargo;
use crate::{bench, complain, print, refuse, root};

/// The backends of burn that a build can contain, as its features are called.
const BACKENDS: [&str; 6] = ["cuda", "rocm", "metal", "vulkan", "webgpu", "wgpu"];

/// The benchmarks of a report: KAN layers at a batch for GPUs, and training steps.
const FILTERS: [(&str, &str); 2] = [("kan", "kan/*-b8192-*"), ("train", "train/*")];

/// What NVIDIA's driver reports of a card.
const CARD: &str = "name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,\
                    temperature.gpu,power.draw,utilization.gpu";

/// Runs the tests of devices and of the kernels for GPUs, on every device of a backend.
pub(crate) fn test_device(arguments: &[String], dry_run: bool) -> ExitCode {
    let options = match Options::read(arguments) {
        Ok(Options { python: None, to: None, device }) => device,
        Ok(_) => return refuse("`cargo xtask test-device` takes --device and --dry-run"),
        Err(message) => return refuse(&message),
    };
    exit(tests(&options, dry_run))
}

/// Tests a card, then times it beside PyTorch, and writes a folder with the results.
pub(crate) fn report(arguments: &[String], dry_run: bool) -> ExitCode {
    let Options { device, python, to } = match Options::read(arguments) {
        Ok(options) => options,
        Err(message) => return refuse(&message),
    };
    let to = to.unwrap_or_else(|| root().join("target").join("gpu-report").join(&device));
    exit(write_report(&device, python.as_deref(), &to, dry_run))
}

fn exit(result: Result<(), ExitCode>) -> ExitCode {
    result.err().unwrap_or(ExitCode::SUCCESS)
}

fn tests(device: &str, dry_run: bool) -> Result<(), ExitCode> {
    let arguments = format!(
        "test --profile gpu -p updraft-device -p updraft-kan --features updraft-device/{device},\
         updraft-kan/{device},updraft-kan/autodiff,updraft-kan/flex,updraft-kan/reference \
         --lib --test it"
    );
    // A test without a device would prove nothing.
    let environment = [("UPDRAFT_TEST_NEEDS_GPU", "1")];
    let cargo = Cargo { arguments: &arguments, environment: &environment };
    print(&format!("> {}", cargo.typed()));
    if dry_run { Ok(()) } else { cargo.run() }
}

fn write_report(
    device: &str,
    python: Option<&str>,
    to: &Path,
    dry_run: bool,
) -> Result<(), ExitCode> {
    tests(device, dry_run)?;
    for (name, filter) in FILTERS {
        let run = to.join(name).to_string_lossy().into_owned();
        let with = format!("{device},fusion,autotune");
        let mut arguments =
            vec![filter, "--with", &with, "--device", device, "--peers", "--save-to", &run];
        arguments.extend(python.into_iter().flat_map(|python| ["--python", python]));
        print(&format!("> cargo xtask bench {}", arguments.join(" ")));
        if dry_run {
            continue;
        }
        let card = card();
        let arguments: Vec<_> = arguments.into_iter().map(str::to_owned).collect();
        succeeded(bench::run(&arguments))?;
        succeeded(bench::run(&["report".to_owned(), run.clone()]))?;
        if let (Some(before), Some(after)) = (card, self::card()) {
            let text = format!("{CARD}\nbefore: {before}\nafter: {after}\n");
            if let Err(error) = std::fs::write(to.join(name).join("card.txt"), text) {
                complain(&format!("error: `{run}/card.txt`: {error}"));
                return Err(ExitCode::FAILURE);
            }
        }
    }
    let done = if dry_run { "would be written to" } else { "written to" };
    print(&format!("{done} {}", to.display()));
    Ok(())
}

fn succeeded(code: ExitCode) -> Result<(), ExitCode> {
    if code == ExitCode::SUCCESS { Ok(()) } else { Err(code) }
}

/// Clocks, temperature, power and utilization, if the driver is NVIDIA's.
fn card() -> Option<String> {
    let query = format!("--query-gpu={CARD}");
    let output =
        Command::new("nvidia-smi").args([&query, "--format=csv,noheader"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

struct Options {
    device: String,
    python: Option<String>,
    to: Option<PathBuf>,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self { device: "wgpu".to_owned(), python: None, to: None };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--dry-run" => {}
                "--device" => options.device.clone_from(value()?),
                "--python" => options.python = Some(value()?.clone()),
                "--to" => options.to = Some(value()?.into()),
                other => {
                    return Err(format!("there is no option `{other}`; see `cargo xtask --help`"));
                }
            }
        }
        if !BACKENDS.contains(&options.device.as_str()) {
            let all = BACKENDS.join(", ");
            return Err(format!("--device knows {all}; not `{}`", options.device));
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Options, String> {
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Options::read(&arguments)
    }

    #[test]
    fn a_device_is_a_backend_of_burn() {
        assert_eq!(read(&["--dry-run"]).map(|options| options.device).unwrap(), "wgpu");
        assert_eq!(read(&["--device", "cuda"]).map(|options| options.device).unwrap(), "cuda");
        let said = |arguments| read(arguments).err().unwrap();
        assert!(said(&["--device", "flex"]).contains("not `flex`"));
        assert_eq!(said(&["--device"]), "--device needs a value");
        assert!(said(&["--cuda"]).contains("no option `--cuda`"));
    }
}
