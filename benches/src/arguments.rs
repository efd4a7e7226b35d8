//! The command line of the runner.

use std::num::{NonZeroU8, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Benchmarks: checks each strategy, then times it together with its peers.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    bin_name = "cargo xtask bench",
    args_conflicts_with_subcommands = true,
    after_help = "Options of the build, for runs:\n\
                  \x20     --compare <LIST>  Also time builds without each of these features:\n\
                  \x20                       conv, simd, rayon, x86-v4, turbojpeg\n\
                  \x20     --with <LIST>     Build with cuda, rocm, metal, vulkan, wgpu, fusion,\n\
                  \x20                       autotune, turbojpeg; each GPU backend that is\n\
                  \x20                       found is timed\n\n\
                  Every strategy is first proved on a small shape against a reference;\n\
                  a wrong one is not timed. Then all take turns, each in a process of its\n\
                  own, and medians are compared within the run."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Substring of the ids to run, or a pattern with `*`; without it, the catalog is listed
    pub(crate) filter: Option<String>,
    /// Also time the peers, in a Python environment that is created at the first use
    #[arg(long)]
    pub(crate) peers: bool,
    /// Print the run as JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Save the run in benches/runs
    #[arg(long)]
    pub(crate) save: bool,
    /// Fail if the chosen kernel takes N % longer than our best one
    #[arg(long, value_name = "N")]
    pub(crate) assert: Option<u16>,
    /// Print what would be timed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Number of threads of each strategy [default: all]; with 1, processor time is measured
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Samples of each strategy
    #[arg(long, value_name = "N", default_value = "15")]
    pub(crate) samples: NonZeroU8,
    /// Processes that each strategy is timed in, with all samples in each: what a run needs that
    /// later ones are compared with by --against
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "against")]
    pub(crate) processes: NonZeroU8,
    /// Fail if a ratio of this saved run fell by more than the noise of both: another strategy's
    /// time over ours. Processes are added until all are decided
    #[arg(long, value_name = "RUN")]
    pub(crate) against: Option<PathBuf>,
    /// Minimum duration of a sample in milliseconds
    #[arg(long, value_name = "MS", default_value = "50")]
    pub(crate) sample_ms: u16,
    /// Time on this GPU backend instead of the processor, with the peers on PyTorch's GPU; the build
    /// has to contain it
    #[arg(long, value_name = "BACKEND")]
    pub(crate) device: Option<String>,
    /// A Python with the peers' packages [default: an environment that is created at the first use]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) python: Option<PathBuf>,
    /// Folder that the run is saved in [default: one in benches/runs]
    #[arg(long, value_name = "DIR")]
    pub(crate) save_to: Option<PathBuf>,
    /// Another build of this program to compare with; created by `--compare` of `cargo xtask`
    #[arg(long, value_name = "NAME=PROGRAM", value_parser = variant, hide = true)]
    pub(crate) variant: Vec<(String, PathBuf)>,
    /// Slow our strategies by N %, to test --against
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) slow_ours: Option<u16>,
    /// Folder of the peers' environment
    #[arg(long, value_name = "DIR", default_value = "target", hide = true)]
    pub(crate) target: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare two saved runs of one machine
    Compare {
        /// The older run's folder
        before: PathBuf,
        /// The newer run's folder
        after: PathBuf,
        /// Only check the arguments
        #[arg(long)]
        dry_run: bool,
    },
    /// Write an HTML page of a saved run
    Report {
        /// The run's folder
        run: PathBuf,
        /// Output file [default: report.html in the run's folder]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// Only check the arguments
        #[arg(long)]
        dry_run: bool,
    },
    /// Compute for the runner
    #[command(hide = true)]
    Worker,
}

fn variant(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, program)) if !name.is_empty() => Ok((name.to_owned(), program.into())),
        _ => Err("expected NAME=PROGRAM".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
