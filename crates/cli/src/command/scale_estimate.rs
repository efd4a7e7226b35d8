//! `scale-estimate`: the step of a config on many ranks, from a step that is measured on one.

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use updraft_data::{Progress, ProgressUnit};
use updraft_distributed::{Network, Restarts, StepExchange};
use updraft_run::{Plan, RankCosts, Registry, TimedStep, TimedWork};

use super::would::dry_run_of;
use super::{ConfigArgs, device_of, open};
use crate::json::JsonArgs;
use crate::progress::Display;
use crate::ranks::refuse_on_ranks;
use crate::stop::NothingToSave;
use crate::units::{network_rate, short_time, storage_rate};
use crate::wrap::{counted, hanging};

const USAGE: &str = "PROGRAM scale-estimate [OPTIONS] [CONFIG]\n           --ranks <N> --bandwidth <RATE> --latency <TIME>";

const EXAMPLES: &str = "\
Examples:
  Two machines, joined by 1 Gbit/s with 100 µs:
      PROGRAM scale-estimate CONFIG --ranks 2 --bandwidth 1Gbit/s --latency 100us
  1024 ranks whose step takes 250 ms, each of which fails every five years:
      PROGRAM scale-estimate CONFIG --set train.batch=65536 --ranks 1024
          --step-ms 250 --bandwidth 100Gbit/s --latency 5us --mtbf 43800
";

/// Estimates the step of a config on many ranks, from a step that is measured on one.
///
/// The step of one rank on its part of the batch, and its packing and sums around the exchange, are
/// measured on this device, with the threads of this process; the time on the network follows from
/// its latency and bandwidth. The formulae are those of docs/scale.md. Nothing is hidden: the
/// exchange begins when the backward pass has ended.
#[derive(Debug, Args)]
#[command(
    override_usage = USAGE.replace("PROGRAM", &crate::program::name()),
    after_help = EXAMPLES.replace("PROGRAM", &crate::program::name())
)]
pub(crate) struct ScaleEstimateArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The number of ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ranks: u32,
    /// What each rank sends and receives at the same time: 10Gbit/s, 100Mbit/s, 1.2GB/s, ..., without
    /// a unit in Gbit/s; ranks of one machine share its network
    #[arg(long, value_name = "RATE", value_parser = network_rate)]
    bandwidth: f64,
    /// The time of a short message: 20us, 1ms, ..., without a unit in µs
    #[arg(long, value_name = "TIME", value_parser = short_time)]
    latency: f64,
    /// Ranks that share a core, such as 2 for four ranks of one thread on two cores: their computation
    /// takes as many times longer
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one)]
    ranks_per_core: f64,
    /// The step of one rank on its part of the batch in ms, instead of measuring it; packing and sums
    /// are measured here also then
    #[arg(long, value_name = "MS", value_parser = positive)]
    step_ms: Option<f64>,
    /// Steps to measure, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(1..))]
    steps: u16,
    /// What the storage of checkpoints writes, and reads for all ranks together: 2GB/s, 500MB/s, ...,
    /// without a unit in MB/s
    #[arg(long, value_name = "RATE", default_value = "500MB/s", value_parser = storage_rate)]
    storage: f64,
    /// The mean time between failures of one rank in hours [default: no failures]
    #[arg(long, value_name = "HOURS", value_parser = positive)]
    mtbf: Option<f64>,
    /// Seconds from a failure until the ranks have started and opened the data
    #[arg(long, value_name = "S", default_value = "60", value_parser = positive)]
    restart_s: f64,
    #[command(flatten)]
    json: JsonArgs,
}

/// The largest number of hours, seconds or milliseconds: more than 30 years of seconds, and small
/// enough that products of all options are finite.
const MOST: f64 = 1e9;

/// A positive number of at most [`MOST`].
fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it must be a number".to_owned())?;
    match number > 0.0 && number <= MOST {
        true => Ok(number),
        false => Err(format!("it must be above 0 and at most {MOST:e}")),
    }
}

/// A number from 1 to [`MOST`].
fn at_least_one(text: &str) -> Result<f64, String> {
    let number = positive(text).ok().filter(|number| *number >= 1.0);
    number.ok_or_else(|| format!("it must be at least 1 and at most {MOST:e}"))
}

impl ScaleEstimateArgs {
    /// The plan of the config, if it trains on so many ranks.
    fn plan(&self, registry: Registry) -> Result<Plan> {
        let plan = self.config.plan(registry)?.plan;
        refuse_on_ranks(&plan, self.ranks as usize, false)?;
        Ok(plan)
    }
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &ScaleEstimateArgs) -> Result<()> {
    let plan = args.config.plan_in_silence(registry)?.plan;
    refuse_on_ranks(&plan, args.ranks as usize, false)?;
    dry_run_of(registry, &args.config, |_| "nothing; the estimate is printed".to_owned())
}

/// Prints the estimate.
pub(crate) fn run(registry: Registry, args: &ScaleEstimateArgs) -> Result<()> {
    let mut plan = args.plan(registry)?;
    // There is nothing to save: a signal ends the process at once.
    let _unasked = NothingToSave::begin();
    let (device, _) = device_of(&plan)?;
    let mut display = Display::new();
    let workload = open(&plan, args.config.data.as_deref(), None, &mut display)?;
    let (ranks, update) = (args.ranks as usize, plan.train.batch * plan.train.accumulate);
    let samples = workload.about().train_samples;
    let steps_per_epoch = (samples / update).max(1) as u64;
    // The largest part of a batch.
    plan.set_batch(plan.train.batch.div_ceil(ranks));
    let costs = RankCosts::of(&*workload, &plan, &device)?;
    let total = u64::from(args.steps);
    let progress = Progress { done: 0, total, unit: ProgressUnit::Samples };
    display.preparing("measuring steps", progress);
    let work = TimedWork::TrainingOnRanks(ranks);
    let steps = workload.time_work(&plan, work, args.steps.into(), &device)?.steps;
    display.clear();
    let of_steps = |seconds: fn(&TimedStep) -> f64| median(steps.iter().map(seconds).collect());
    let measured = RankTimes {
        rank_s: args.step_ms.map_or_else(
            || of_steps(|step| step.seconds - step.exchange_s),
            |step_ms| step_ms * 1e-3,
        ),
        packing_s: if ranks == 1 { 0.0 } else { of_steps(|step| step.exchange_s) },
    };
    let interval = plan.train.checkpoint_every_steps.unwrap_or(steps_per_epoch);
    let mut estimate = Estimate::of(args, costs, measured, (update, interval));
    estimate.synchronizes = ranks > 1 && plan.train.distributed.synchronizes();
    ensure!(estimate.step_s.is_finite(), "the estimate is not finite; the options are too extreme");
    for (name, line) in estimate.lines() {
        display.line(&hanging(&format!("{name:11}"), &line));
    }
    args.json.print(&estimate.json())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let (below, above) = ((numbers.len() - 1) / 2, numbers.len() / 2);
    (numbers[below] + numbers[above]) / 2.0
}

/// Seconds of a rank that has a core of its own.
struct RankTimes {
    /// Of its part of the batch.
    rank_s: f64,
    /// Of reading, packing and adding gradients and statistics, without a network.
    packing_s: f64,
}

/// Everything that is printed.
struct Estimate {
    ranks: usize,
    costs: RankCosts,
    /// Samples of an update, of all ranks.
    samples: usize,
    rank_s: f64,
    network_s: f64,
    packing_s: f64,
    step_s: f64,
    /// Steps between checkpoints.
    interval: u64,
    checkpoint_s: f64,
    restarts: Restarts,
    has_failures: bool,
    /// Whether batch norms exchange numbers in each pass, which the estimate leaves out.
    synchronizes: bool,
}

impl Estimate {
    fn of(
        args: &ScaleEstimateArgs,
        costs: RankCosts,
        measured: RankTimes,
        (samples, interval): (usize, u64),
    ) -> Self {
        let ranks = args.ranks as usize;
        let network = Network { latency_s: args.latency, bytes_per_s: args.bandwidth };
        let network_s = costs.exchange.seconds(ranks, network);
        let RankTimes { rank_s, packing_s } = measured;
        let [rank_s, packing_s] = [rank_s, packing_s].map(|own| args.ranks_per_core * own);
        let checkpoint_s = costs.checkpoint_bytes as f64 / args.storage;
        let restarts = Restarts {
            checkpoint_s,
            restart_s: args.restart_s + ranks as f64 * checkpoint_s,
            failures_per_s: args.mtbf.map_or(0.0, |hours| ranks as f64 / (hours * 3600.0)),
        };
        let step_s = rank_s + network_s + packing_s;
        let has_failures = args.mtbf.is_some();
        Self {
            ranks,
            costs,
            samples,
            rank_s,
            network_s,
            packing_s,
            step_s,
            interval,
            checkpoint_s,
            restarts,
            has_failures,
            synchronizes: false,
        }
    }

    fn efficiency(&self) -> f64 {
        self.rank_s / self.step_s
    }

    fn interval_s(&self) -> f64 {
        self.interval as f64 * self.step_s
    }

    /// The best number of steps between checkpoints.
    fn best_interval(&self) -> f64 {
        (self.restarts.best_interval_s() / self.step_s).max(1.0).round()
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let Self { ranks, costs, samples, interval, .. } = self;
        let ms = |seconds: f64| format!("{:.2} ms", 1e3 * seconds);
        let mb = |bytes: f64| format!("{:.2} MB", 1e-6 * bytes);
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let sent = costs.exchange.bytes(*ranks);
        let mut lines = vec![
            ("rank", format!("{} for its part of {samples} samples", ms(self.rank_s))),
            (
                "exchange",
                format!(
                    "{} on the network, {} sent by each rank; {} of packing and sums",
                    ms(self.network_s),
                    mb(sent),
                    ms(self.packing_s)
                ),
            ),
            (
                "step",
                format!(
                    "{} on {}, {:.0} samples/s, efficiency {}",
                    ms(self.step_s),
                    counted(*ranks as u64, "rank"),
                    *samples as f64 / self.step_s,
                    percent(self.efficiency())
                ),
            ),
            (
                "checkpoint",
                format!(
                    "{}, {} every {}, {:.3} MB/s of wall time",
                    mb(costs.checkpoint_bytes as f64),
                    ms(self.checkpoint_s),
                    counted(*interval, "step"),
                    1e-6 * costs.checkpoint_bytes as f64 / (self.interval_s() + self.checkpoint_s)
                ),
            ),
            (
                "useful",
                format!(
                    "{} of wall time trains",
                    percent(self.restarts.useful_share(self.interval_s()))
                ),
            ),
        ];
        if self.synchronizes {
            lines.push((
                "left out",
                "synchronized batch norms exchange their sums once for each layer in the forward and \
                 once in the backward pass; each of these exchanges takes at least the latency"
                    .to_owned(),
            ));
        }
        if self.has_failures {
            let Restarts { restart_s, failures_per_s, .. } = self.restarts;
            lines.push((
                "failures",
                format!(
                    "one in {:.1} h; a restart takes {restart_s:.0} s; the best interval of \
                     checkpoints is {} steps, with {}",
                    1.0 / failures_per_s / 3600.0,
                    self.best_interval(),
                    percent(self.restarts.useful_share(self.best_interval() * self.step_s))
                ),
            ));
        }
        lines
    }

    fn json(&self) -> serde_json::Value {
        let StepExchange { gradients, statistics, .. } = self.costs.exchange;
        let best = self.has_failures.then(|| self.best_interval());
        json!({
            "ranks": self.ranks,
            "samples": self.samples,
            "gradients": gradients,
            "statistics": statistics,
            "sent_bytes": self.costs.exchange.bytes(self.ranks),
            "rank_s": self.rank_s,
            "network_s": self.network_s,
            "packing_s": self.packing_s,
            "step_s": self.step_s,
            "samples_per_s": self.samples as f64 / self.step_s,
            "efficiency": self.efficiency(),
            "leaves_out_synchronized_batch_norms": self.synchronizes,
            "checkpoint_bytes": self.costs.checkpoint_bytes,
            "checkpoint_s": self.checkpoint_s,
            "checkpoint_every_steps": self.interval,
            "useful_share": self.restarts.useful_share(self.interval_s()),
            "failures_per_s": self.restarts.failures_per_s,
            "restart_s": self.restarts.restart_s,
            "best_checkpoint_every_steps": best,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use updraft_distributed::Wire;

    use super::*;

    #[test]
    fn the_median_and_the_options_are_read() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(positive("2.5"), Ok(2.5));
        for (text, reason) in
            [("0", "above 0"), ("-1", "above 0"), ("1e300", "at most 1e9"), ("x", "a number")]
        {
            assert!(positive(text).unwrap_err().contains(reason), "{text}");
        }
        for text in ["inf", "NaN", "1e400", "0.5"] {
            assert!(at_least_one(text).unwrap_err().contains("at least 1"), "{text}");
        }
    }

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        args: ScaleEstimateArgs,
    }

    #[test]
    fn ranks_that_share_a_core_compute_longer_and_exchange_as_long() {
        let exchange = StepExchange { gradients: 1000, wire: Wire::F32, statistics: 0 };
        let costs = RankCosts { exchange, checkpoint_bytes: 8000 };
        let estimate = |ranks_per_core: &str| {
            let typed = ["of", "--ranks", "4", "--bandwidth", "1", "--latency", "100"];
            let typed = typed.into_iter().chain(["--ranks-per-core", ranks_per_core]);
            let args = Typed::try_parse_from(typed).unwrap().args;
            Estimate::of(&args, costs, RankTimes { rank_s: 0.04, packing_s: 0.01 }, (64, 10))
        };
        let (own, shared) = (estimate("1"), estimate("2"));
        assert_eq!([own.rank_s, own.packing_s], [0.04, 0.01]);
        assert_eq!([shared.rank_s, shared.packing_s], [0.08, 0.02]);
        assert!(own.network_s > 0.0 && shared.network_s == own.network_s);
        assert!((shared.step_s - own.step_s - 0.05).abs() < 1e-12);
        let has_note = |of: &Estimate| of.lines().iter().any(|(name, _)| *name == "left out");
        assert!(!has_note(&own) && has_note(&Estimate { synchronizes: true, ..own }));
    }
}
