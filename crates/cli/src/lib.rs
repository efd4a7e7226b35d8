#![doc = include_str!("../README.md")]

mod allocator;
mod arguments;
mod batch_size;
mod captured;
mod child;
mod command;
mod contribution_table;
mod current_run;
mod device;
mod device_fault;
mod device_panic;
mod endure;
mod folder_name;
mod found_batches;
mod json;
mod kernels;
mod layer_table;
mod log;
mod output_file;
mod performance;
mod predictions;
mod program;
mod progress;
mod quantization;
mod ranks;
mod report;
mod search;
mod steps;
mod stop;
mod terminal;
mod threads;
mod units;
mod whole_file;
mod wrap;

pub use allocator::EndWithoutMemory;

use std::ffi::OsString;
use std::io::{IsTerminal, stderr};

use anyhow::Result;
use clap::Parser;
use updraft_distributed::CollectiveError;
use updraft_run::{Registry, RunError, TASKS};
use updraft_tune::TuneError;

use arguments::{Arguments, Command};
use predictions::PartFailed;
use terminal::{print, print_json};

/// A model that was trained by a run, ready to predict.
///
/// # Example
/// ```
/// # let folder = std::env::temp_dir().join(format!("updraft-example-{}", std::process::id()));
/// # let train = ["updraft", "train", "--runs", folder.to_str().expect("a path in UTF-8")];
/// # let small = ["data.train_images=40", "data.test_images=20", "train.epochs=1"];
/// # let small = small.iter().flat_map(|setting| ["--set", *setting]);
/// # assert_eq!(updraft::run(train.into_iter().chain(small)), 0);
/// # let run = std::fs::read_dir(&folder)?.next().expect("one run")?.path();
/// # for name in ["first.png", "second.png"] {
/// #     image::RgbImage::new(40, 30).save(folder.join(name))?;
/// # }
/// let model = updraft::TrainedModel::load(run, "auto")?;
/// println!("{} classes", model.classes().len());
///
/// for path in ["first.png", "second.png"] {
///     let predictions = model.predict_file(folder.join(path))?;
///     let best = &predictions[0];
///     println!("{path}: {} ({:.1} %)", best.class, 100.0 * best.probability);
/// }
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use updraft_run::TrainedModel;

// What a trained model predicts.
pub use updraft_run::{ClassProbability, Outcome, Predicted, PredictedTarget, PredictedValue};

/// The exit code for errors of the user: arguments, configuration, data, device.
const BAD_INPUT: u8 = 2;

/// The exit code for a run that failed.
const RUN_FAILED: u8 = 1;

/// The exit code for work that was stopped before its result exists: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// Runs the command line `updraft ARGS…` with the tasks of this workspace and returns its exit
/// code.
///
/// The first argument is the program's name. Errors are printed to standard error as one line, which
/// is wrapped on a terminal.
pub fn run<I, T>(arguments: I) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    run_with(TASKS, arguments)
}

/// Runs the command line with the given tasks, the default first: a program with its own task
/// consists of this call.
///
/// # Example
/// ```no_run
/// # let arguments = std::env::args_os();
/// std::process::exit(updraft::run_with(updraft_run::TASKS, arguments).into());
/// ```
pub fn run_with<I, T>(registry: Registry, arguments: I) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    stop::block_file_size_signal();
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            if error.use_stderr() {
                ranks::wait_for_rank_0();
            }
            // `--help` and `--version` are errors here, too, and belong to standard output.
            let printed = terminal::print_usage(&error);
            return match printed {
                _ if error.use_stderr() => BAD_INPUT,
                Ok(()) => 0,
                Err(error) => ended(&error),
            };
        }
    };
    if !arguments.dry_run {
        stop::block_scheduler_signals();
    }
    let advice = arguments.command.memory_advice();
    allocator::advise(advice);
    let _record = device_panic::PanicRecord::begin(advice);
    let command = || threads::on_reserved_stack(|| execute(registry, &arguments));
    match threads::check()
        .and_then(|()| threads::start())
        .and_then(|()| device_panic::with_device_errors(advice, command))
    {
        Ok(()) => 0,
        Err(error) => ended(&error),
    }
}

/// Prints why a command ended and returns its exit code.
fn ended(error: &anyhow::Error) -> u8 {
    ranks::wait_for_rank_0();
    terminal::say(&wrap::error(&format!("{error:#}"), stderr().is_terminal()));
    exit_code(error)
}

fn execute(registry: Registry, arguments: &Arguments) -> Result<()> {
    use command::{
        arm_run, batch_find, batch_sweep, compare, compare_options, endure, eval, explain, launch,
        lr_find, pipeline, predict, probe, quantize, report, scale_estimate, tasks, train, tune,
        tune_performance, validate, verify, warm_up,
    };
    let log = log::install(arguments.log);
    if arguments.dry_run {
        return match &arguments.command {
            Command::Train(args) => train::dry_run(registry, args),
            Command::Launch(args) => launch::dry_run(registry, args),
            Command::Pipeline(args) => pipeline::dry_run(registry, args),
            Command::Eval(args) => eval::dry_run(registry, args),
            Command::Predict(args) => predict::dry_run(registry, args),
            Command::Quantize(args) => quantize::dry_run(registry, args),
            Command::Report(args) => report::dry_run(registry, args),
            Command::LrFind(args) => lr_find::dry_run(registry, args),
            Command::Compare(args) => compare::dry_run(registry, args),
            Command::CompareOptions(args) => compare_options::dry_run(registry, args),
            Command::Tune(args) => tune::dry_run(registry, args),
            Command::BatchSweep(args) => batch_sweep::dry_run(registry, args),
            Command::TunePerformance(args) => tune_performance::dry_run(registry, args),
            Command::BatchFind(args) => batch_find::dry_run(registry, args),
            Command::ScaleEstimate(args) => scale_estimate::dry_run(registry, args),
            Command::WarmUp(args) => warm_up::dry_run(registry, args),
            Command::Validate(args) => validate::dry_run(registry, args),
            Command::Verify(args) => verify::dry_run(registry, args),
            Command::Endure(args) => endure::dry_run(registry, args),
            Command::ArmRun(_)
            | Command::BatchProbe(_)
            | Command::MeasureSteps(_)
            | Command::TuneTrial(_) => anyhow::bail!("this command takes no --dry-run"),
            // These only print.
            Command::Explain(args) => explain::run(registry, args),
            Command::Tasks(args) => tasks::run(registry, args),
            Command::Probe(args) => probe::run(args),
        };
    }
    stop::install();
    match &arguments.command {
        Command::Train(args) => train::run(registry, args, &log),
        Command::Launch(args) => launch::run(registry, args),
        Command::Pipeline(args) => pipeline::run(registry, args, &log),
        Command::Eval(args) => eval::run(registry, args),
        Command::Predict(args) => predict::run(registry, args),
        Command::Quantize(args) => quantize::run(registry, args),
        Command::Report(args) => report::run(registry, args),
        Command::LrFind(args) => lr_find::run(registry, args),
        Command::Compare(args) => compare::run(registry, args),
        Command::ArmRun(args) => arm_run::run(registry, args, &log),
        Command::CompareOptions(args) => compare_options::run(registry, args),
        Command::BatchSweep(args) => batch_sweep::run(registry, args),
        Command::TunePerformance(args) => tune_performance::run(registry, args),
        Command::MeasureSteps(args) => compare_options::measure_steps(registry, args),
        Command::Tune(args) => tune::run(registry, args),
        Command::TuneTrial(args) => tune::trial(registry, args, &log),
        Command::BatchFind(args) => batch_find::run(registry, args),
        Command::BatchProbe(args) => batch_find::probe(registry, args),
        Command::ScaleEstimate(args) => scale_estimate::run(registry, args),
        Command::WarmUp(args) => warm_up::run(registry, args),
        Command::Validate(args) => validate::run(registry, args),
        Command::Verify(args) => verify::run(registry, args),
        Command::Endure(args) => endure::run(registry, args),
        Command::Explain(args) => explain::run(registry, args),
        Command::Tasks(args) => tasks::run(registry, args),
        Command::Probe(args) => probe::run(args),
    }
}

/// An error that other arguments, configuration or data would not fix.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failed(String);

/// The error of work that was stopped before its result exists, with how to continue.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Stopped(String);

/// Errors that arguments, configuration or data can fix have another exit code.
fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(part) = error.downcast_ref::<PartFailed>() {
        return part.code;
    }
    let was_stopped = error.chain().any(|cause| {
        cause.is::<Stopped>()
            || matches!(cause.downcast_ref::<RunError>(), Some(RunError::Stopped { .. }))
    });
    if was_stopped {
        return INTERRUPTED;
    }
    let has_failed = error.chain().any(|cause| {
        cause.is::<Failed>()
            || cause.downcast_ref::<CollectiveError>().is_some_and(|error| !error.is_input())
            || cause.is::<command::verify::VerifyFailed>()
            || cause.downcast_ref::<TuneError>().is_some_and(|error| !error.is_input())
            || cause.downcast_ref::<RunError>().is_some_and(|error| !error.is_input())
    });
    if has_failed { RUN_FAILED } else { BAD_INPUT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_were_started_for_other_things_are_bad_input_and_a_lost_rank_is_not() {
        let (what, expected, found) = (String::new(), String::new(), String::new());
        let unlike = CollectiveError::Disagreement { what, rank: 1, expected, found };
        assert_eq!(exit_code(&unlike.into()), BAD_INPUT);
        assert_eq!(exit_code(&CollectiveError::Lost { rank: 1 }.into()), RUN_FAILED);
    }

    #[test]
    fn work_that_was_stopped_before_its_result_has_the_exit_code_of_a_signal() {
        let stopped = || Stopped("stopped".to_owned());
        assert_eq!(exit_code(&stopped().into()), INTERRUPTED);
        assert_eq!(exit_code(&anyhow::Error::from(stopped()).context("an arm")), INTERRUPTED);
        assert_eq!(exit_code(&RunError::Stopped { what: "the end" }.into()), INTERRUPTED);
        assert_eq!(exit_code(&Failed("stopped".to_owned()).into()), RUN_FAILED);
    }

    #[test]
    fn a_part_that_failed_keeps_its_exit_code() {
        for code in [BAD_INPUT, RUN_FAILED, INTERRUPTED] {
            let failed = PartFailed { code, reason: String::new() };
            assert_eq!(exit_code(&failed.into()), code);
        }
    }
}
