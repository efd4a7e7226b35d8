//! The command line as clap reads it.

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use crate::command::{
    arm_run, batch_find, batch_sweep, compare, compare_options, endure, eval, explain, launch,
    lr_find, pipeline, predict, probe, quantize, report, scale_estimate, tasks, train, tune,
    tune_performance, validate, verify, warm_up,
};

/// Trains, measures and uses burn models.
///
/// The command `train` needs nothing: it trains a small model on generated data in under a minute.
#[derive(Debug, Parser)]
#[command(name = "updraft", version, max_term_width = 80)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Log level: error, warn, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn")]
    pub(crate) log: LevelFilter,
    /// Check the arguments and print what would be done, but do nothing
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Train(train::TrainCommand),
    Launch(launch::LaunchArgs),
    Eval(eval::EvalArgs),
    Predict(predict::PredictArgs),
    Tasks(tasks::TasksArgs),
    Probe(probe::ProbeArgs),
    Quantize(quantize::QuantizeArgs),
    Pipeline(pipeline::PipelineArgs),
    Explain(explain::ExplainArgs),
    LrFind(lr_find::LrFindArgs),
    Compare(compare::CompareArgs),
    #[command(hide = true)]
    ArmRun(arm_run::ArmRunArgs),
    CompareOptions(compare_options::CompareOptionsArgs),
    BatchSweep(batch_sweep::BatchSweepArgs),
    TunePerformance(tune_performance::TunePerformanceArgs),
    #[command(hide = true)]
    MeasureSteps(compare_options::MeasureStepsArgs),
    Tune(tune::TuneArgs),
    #[command(hide = true)]
    TuneTrial(tune::TuneTrialArgs),
    BatchFind(batch_find::BatchFindArgs),
    #[command(hide = true)]
    BatchProbe(batch_find::BatchProbeArgs),
    ScaleEstimate(scale_estimate::ScaleEstimateArgs),
    Validate(validate::ValidateArgs),
    Verify(verify::VerifyArgs),
    Endure(endure::EndureArgs),
    Report(report::ReportArgs),
    WarmUp(warm_up::WarmUpArgs),
}

impl Command {
    /// What to change if memory runs out; `None` for commands that train, which use the advice of
    /// the program's allocator.
    pub(crate) const fn memory_advice(&self) -> Option<&'static str> {
        match self {
            Self::Quantize(_) => Some(
                "calibrate with fewer samples (`--calibration`), quantize a smaller network, or \
                 raise the limit",
            ),
            Self::Eval(_) | Self::Validate(_) => {
                Some("use a smaller model or smaller test data, or raise the limit")
            }
            // They train, and save nothing that could be resumed.
            Self::BatchFind(_) | Self::LrFind(_) | Self::WarmUp(_) | Self::ScaleEstimate(_) => {
                Some("use a smaller model, smaller data or a smaller batch, or raise the limit")
            }
            Self::Predict(_) => Some("use a smaller model or smaller files, or raise the limit"),
            Self::Report(_) | Self::Explain(_) | Self::Tasks(_) | Self::Probe(_) => {
                Some("raise the limit")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_train_has_its_own_advice_about_memory() {
        let advice = |words: &[&str]| {
            let parsed = Arguments::try_parse_from(["updraft"].iter().chain(words));
            parsed.expect("valid").command.memory_advice()
        };
        assert_eq!(advice(&["train"]), None);
        assert!(advice(&["quantize", "a"]).expect("advice").contains("`--calibration`"));
        let commands = [
            &["quantize", "a"][..],
            &["eval", "a"],
            &["predict", "a", "b"],
            &["batch-find"],
            &["lr-find"],
            &["warm-up"],
        ];
        for words in commands {
            let advice = advice(words).expect("advice");
            assert!(!advice.contains("train.batch") && !advice.contains("--resume"), "{advice}");
        }
    }
}
