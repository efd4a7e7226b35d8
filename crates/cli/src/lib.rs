#![doc = include_str!("../README.md")]

mod arguments;
mod batch_size;
mod classifier;
mod command;
mod config;
mod device;
mod environment;
mod held;
mod log;
mod model;
mod network;
mod progress;
mod quantization;
mod record;
mod regression;
mod report;
mod run_folder;
mod steps;
mod stop;
mod utilization;
mod workload;

use std::ffi::OsString;
use std::io::{Write, stderr, stdout};

use anyhow::Result;
use clap::Parser;
use updraft_trainer::TrainError;

use arguments::{Arguments, Command};

// Using a trained model from Rust.
pub use model::{Prediction, TrainedModel};

/// The exit code for what the user can mend: arguments, configuration, data, device.
const BAD_INPUT: u8 = 2;

/// The exit code for a run that failed on the way.
const RUN_FAILED: u8 = 1;

/// Runs the command line `updraft ARGS…` and returns its exit code.
///
/// The first argument is the program's name. Errors go to standard error as one line.
pub fn run<I, T>(arguments: I) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // `--help` and `--version` come this way too, and belong to standard output.
            let _ = error.print();
            return if error.use_stderr() { BAD_INPUT } else { 0 };
        }
    };
    match execute(&arguments) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(stderr(), "error: {error:#}");
            exit_code(&error)
        }
    }
}

fn execute(arguments: &Arguments) -> Result<()> {
    let log = log::install(arguments.log);
    if arguments.dry_run {
        return match &arguments.command {
            Command::Train(args) => command::train::dry_run(args),
            Command::Explain(args) => command::explain::run(args),
            Command::Pipeline(args) => command::pipeline::dry_run(args),
            _ => Ok(()),
        };
    }
    stop::install();
    match &arguments.command {
        Command::Train(args) => command::train::run(args, &log),
        Command::Eval(args) => command::eval::run(args),
        Command::Predict(args) => command::predict::run(args),
        Command::Probe(args) => command::probe::run(args),
        Command::Quantize(args) => command::quantize::run(args),
        Command::Pipeline(args) => command::pipeline::run(args, &log),
        Command::Explain(args) => command::explain::run(args),
        Command::LrFind(args) => command::lr_find::run(args),
        Command::Compare(args) => command::compare::run(args),
        Command::BatchFind(args) => command::batch_find::run(args),
        Command::BatchProbe(args) => command::batch_find::probe(args),
        Command::Verify(args) => command::verify::run(args),
        Command::Report(args) => command::report::run(args),
        Command::WarmUp(args) => command::warm_up::run(args),
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<command::verify::VerifyFailed>() {
        return RUN_FAILED;
    }
    match error.downcast_ref::<TrainError>() {
        Some(
            TrainError::NonFiniteLoss { .. }
            | TrainError::Gradient { .. }
            | TrainError::TooManySkips { .. },
        ) => RUN_FAILED,
        _ => BAD_INPUT,
    }
}

/// Prints a result to standard output; a reader that went away is no fault of ours.
fn print(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}
