//! Runs cargo in this workspace: build, train, test, check, tidy.

mod api;
mod arm;
mod bench;
mod cargo;
mod check;
mod cuda_offline;
mod deny;
mod fuzz;
mod fuzz_history;
mod gpu;
mod libraries;
mod limit;
mod network;
mod package;
mod results;
mod suite;
mod tidy;
mod updraft;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const HELP: &str = "\
Build, train, measure and check from source.

Usage: cargo xtask COMMAND [ARGS]... [--dry-run]

Train (these commands build the program `updraft` first; each has --help):
  train       train a model; without arguments, a small one in seconds
  pipeline    train, test, reload, quantize and report, as one command
  compare     train with different settings on the same seeds

Use a trained model:
  eval        evaluate a trained model on its test data
  predict     predict images or rows of tables with a trained model
  quantize    convert a trained model to int8 and report the cost
  validate    compare a trained model with another one, or another form of it
  report      write the HTML report of a run: curves, times, plan, environment

Choose settings:
  tasks       list the tasks, and what each does not support, with the reason
  explain     show every value of a config and where it comes from
  tune        search the values of keys with which a config trains best
  lr-find     run a learning-rate range test and suggest a learning rate
  batch-find  find the largest batch that fits into memory
  batch-sweep
              throughput, latency and memory by batch size
  scale-estimate
              the step, efficiency and restarts on many ranks
  compare-options
              what each optimization brings, and whether results stay equal
  tune-performance
              find the settings that train fastest here, as a profile

Check and prepare a device:
  probe       list the devices, with the reason for unusable ones
  verify      check the parts that a training run depends on
  warm-up     compile and tune the kernels of a GPU before a run
  endure      kill, starve and resume runs, and compare every bit

Measure:
  bench       check kernels, then time them against other libraries (--help)
  gpu-report  check this machine, test a GPU, time it beside PyTorch, and write
              a folder with a page and JSON (--device cuda|vulkan|metal|rocm|
              wgpu, --python PROGRAM, --to DIR, --size full|medium|small,
              --quick, --ignore-checks)
  results     compare the README's speeds with the runs it cites (--write)

Change the code:
  test        run every test
  check       format, tidy, clippy, docs and feature builds, cheapest first;
              with --slow also lints and tests of the code for GPUs
  tidy        check the rules for sources, manifests and documents
  test-device run the tests of the code for GPUs on a device, and record them
              (--device BACKEND, --with fusion|autotune, --quick,
              --json FILE)
  cuda-offline
              compile every GPU kernel for NVIDIA's cards, without one
              (--python PROGRAM; Linux)
  test-network
              train on ranks in network namespaces of a limited rate
              (--ranks N --rate 1gbit --latency 1ms; Linux, root)
  test-arm    run the kernels' tests on aarch64, under emulation
  fuzz        run every fuzz target for a share of --minutes N
  deny        check the licenses and sources of every dependency
  package     package every published crate, and check that the packages build
  api         compare every crate's public items with its list; --write writes
              the lists, --against COMMIT compares them with a commit's

Options:
  --dry-run   print what would be done

A first result: cargo xtask train
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let dry_run = rest.iter().any(|argument| argument == "--dry-run");
    match command.as_str() {
        "train" | "pipeline" | "eval" | "predict" | "quantize" | "report" | "tasks" | "probe"
        | "explain" | "lr-find" | "batch-find" | "compare" | "tune" | "warm-up" | "verify"
        | "validate" | "endure" | "compare-options" | "batch-sweep" | "tune-performance"
        | "scale-estimate" => updraft::run(&command, &rest),
        "check" if rest.iter().any(|argument| argument != "--dry-run" && argument != "--slow") => {
            refuse("`cargo xtask check` takes no arguments but --slow and --dry-run")
        }
        "deny" | "package" | "test" | "test-arm" | "tidy"
            if rest.iter().any(|argument| argument != "--dry-run") =>
        {
            refuse(&format!("`cargo xtask {command}` takes no arguments but --dry-run"))
        }
        "api" => api::run(&rest, dry_run),
        "bench" => bench::run(&rest),
        "check" => check::run(rest.iter().any(|argument| argument == "--slow"), dry_run),
        "cuda-offline" => cuda_offline::run(&rest, dry_run),
        "deny" => deny::run(dry_run),
        "package" => package::run(dry_run),
        "fuzz" => fuzz::run(&rest, dry_run),
        "gpu-report" => gpu::report(&rest, dry_run),
        "results" => results::run(&rest, dry_run),
        "test" => suite::run(dry_run),
        "test-device" => gpu::test_device(&rest, dry_run),
        "test-network" => network::run(&rest, dry_run),
        "test-arm" => arm::run(dry_run),
        "tidy" => tidy::run(dry_run),
        "" | "help" | "--help" | "-h" => {
            print(HELP.trim_end());
            ExitCode::SUCCESS
        }
        _ => refuse(&format!("there is no command `{command}`; see `cargo xtask --help`")),
    }
}

/// The folder of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}

/// The folder that cargo builds into.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Whether a program starts.
fn is_here(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

fn refuse(message: &str) -> ExitCode {
    complain(&format!("error: {message}"));
    ExitCode::from(2)
}

#[expect(clippy::print_stdout, reason = "a command line speaks")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a command line speaks")]
fn complain(text: &str) {
    eprintln!("{text}");
}
