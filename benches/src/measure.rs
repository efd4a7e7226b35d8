//! Measuring an entry: every strategy is checked, then all are timed in turns.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::catalog::Entry;
use crate::host::{Programs, Worker};
use crate::problem::{Problem, Proof, Work};
use crate::statistics::Summary;
use crate::strategy::{Role, Strategy};

/// How long and how often is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Samples of each strategy.
    pub(crate) samples: usize,
    /// A sample repeats the computation until it takes at least so long.
    pub(crate) sample: Duration,
    /// Processes of each strategy, each with all samples.
    pub(crate) processes: usize,
}

/// A strategy that has taken this much of the clock takes no further sample once it has
/// [`FEWEST_SAMPLES`]: its median is far from the others', and an entry takes minutes else.
const LONG: Duration = Duration::from_secs(10);

/// A median of fewer says nothing.
const FEWEST_SAMPLES: usize = 3;

/// A repetition of this length needs no other one before it that warms caches and clock.
const WARM_BY_ITSELF: Duration = Duration::from_secs(1);

/// The pause before a strategy's turn: the threads of the last one stop spinning.
const SETTLE: Duration = Duration::from_millis(30);

/// An entry's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) id: String,
    pub(crate) about: String,
    pub(crate) problem: Problem,
    pub(crate) work: Work,
    /// The algorithms that our kernels chose on the machine, with reasons; one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) choices: Vec<String>,
    pub(crate) outcomes: Vec<Outcome>,
}

/// A strategy's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) strategy: String,
    pub(crate) role: Role,
    /// The implementation, with its version.
    pub(crate) about: Option<String>,
    /// The reason if there is no timing.
    pub(crate) failure: Option<String>,
    pub(crate) proof: Option<Proof>,
    pub(crate) timing: Option<Timing>,
}

/// A strategy's times per repetition, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timing {
    /// Repetitions in a sample.
    pub(crate) repetitions: u64,
    /// The first repetition in a new process: what a cold start costs.
    pub(crate) first_ns: f64,
    /// Each sample on the monotonic clock.
    pub(crate) wall_ns: Vec<f64>,
    /// Each sample on the processor clocks of all threads.
    pub(crate) cpu_ns: Vec<f64>,
    /// The first sample of each process after the first, where several were timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) starts: Vec<usize>,
    /// The most memory that the process held.
    pub(crate) peak_bytes: Option<u64>,
    /// The memory of the process before the problem was prepared.
    #[serde(default)]
    pub(crate) base_bytes: Option<u64>,
}

impl Timing {
    fn empty(repetitions: u64, first_ns: f64) -> Self {
        Self {
            repetitions,
            first_ns,
            wall_ns: Vec::new(),
            cpu_ns: Vec::new(),
            starts: Vec::new(),
            peak_bytes: None,
            base_bytes: None,
        }
    }

    /// Whether a slow strategy has been sampled for long enough.
    fn has_enough(&self) -> bool {
        let taken_ns = self.wall_ns.iter().sum::<f64>() * self.repetitions as f64;
        self.wall_ns.len() >= FEWEST_SAMPLES && taken_ns >= LONG.as_nanos() as f64
    }

    /// The peak memory of the problem and its computation, in bytes.
    pub(crate) fn taken_bytes(&self) -> Option<u64> {
        Some(self.peak_bytes?.saturating_sub(self.base_bytes?))
    }

    /// The samples of the clock that counts: the processor's where one thread computes, the
    /// monotonic one where several do.
    fn samples(&self, threads: usize) -> &[f64] {
        if threads == 1 { &self.cpu_ns } else { &self.wall_ns }
    }

    /// The summary of the samples of all processes, on the clock that counts.
    pub(crate) fn summary(&self, threads: usize) -> Option<Summary> {
        Summary::of(self.samples(threads))
    }

    /// The samples of each process, on the clock that counts.
    pub(crate) fn processes(&self, threads: usize) -> impl Iterator<Item = &[f64]> {
        let samples = self.samples(threads);
        let first = std::iter::once(0).chain(self.starts.iter().copied());
        let last = self.starts.iter().copied().chain([samples.len()]);
        first.zip(last).filter_map(|(first, last)| samples.get(first..last))
    }

    /// Adds the samples of another process.
    fn append(&mut self, of: Self) {
        self.starts.push(self.wall_ns.len());
        self.wall_ns.extend(of.wall_ns);
        self.cpu_ns.extend(of.cpu_ns);
        self.peak_bytes = self.peak_bytes.max(of.peak_bytes);
    }
}

/// Checks every strategy, then times those that are right.
pub(crate) fn measure(
    entry: &Entry,
    strategies: &[Strategy],
    programs: &Programs,
    effort: Effort,
) -> Result<Measured> {
    let task = entry.problem.task();
    let mut outcomes = Vec::new();
    let mut running = Vec::new();
    for (mut outcome, ready) in ready(entry, strategies, programs) {
        match ready.and_then(|worker| Turn::start(worker, effort)) {
            Ok(turn) => running.push((outcomes.len(), turn)),
            Err(error) => outcome.failure = Some(format!("{error:#}")),
        }
        outcomes.push(outcome);
    }
    take_turns(&mut running, &mut outcomes, effort);
    for (index, turn) in running {
        outcomes[index].about = Some(turn.worker.about.clone());
        if outcomes[index].failure.is_none() {
            outcomes[index].timing = Some(turn.timing);
        }
    }
    let mut measured = Measured {
        id: entry.id.clone(),
        about: entry.about.to_owned(),
        problem: entry.problem.clone(),
        work: task.work(),
        choices: task.choices(),
        outcomes,
    };
    for _ in 1..effort.processes {
        measure_again(&mut measured, entry, strategies, programs, effort);
    }
    Ok(measured)
}

/// Times every strategy that was timed in another process, with as many repetitions.
///
/// A strategy that fails has no timing after it.
pub(crate) fn measure_again(
    measured: &mut Measured,
    entry: &Entry,
    strategies: &[Strategy],
    programs: &Programs,
    effort: Effort,
) {
    let outcomes = &mut measured.outcomes;
    let mut running = Vec::new();
    for (index, outcome) in outcomes.iter_mut().enumerate() {
        let Some(timing) = &outcome.timing else { continue };
        let strategy = strategies.iter().find(|strategy| strategy.id == outcome.strategy);
        let again = strategy.context("the strategy is not there").and_then(|strategy| {
            Turn::again(Ready::start(entry, strategy, programs)?, timing.repetitions)
        });
        match again {
            Ok(turn) => running.push((index, turn)),
            Err(error) => outcome.failure = Some(format!("{error:#}")),
        }
    }
    take_turns(&mut running, outcomes, effort);
    for (index, turn) in running {
        if let Some(timing) = &mut outcomes[index].timing {
            timing.append(turn.timing);
        }
    }
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.failure.is_some()) {
        outcome.timing = None;
    }
}

/// Takes the samples of strategies in turns.
fn take_turns(running: &mut [(usize, Turn)], outcomes: &mut [Outcome], effort: Effort) {
    for _ in 0..effort.samples {
        for (index, turn) in &mut *running {
            if outcomes[*index].failure.is_none()
                && !turn.timing.has_enough()
                && let Err(error) = turn.sample()
            {
                outcomes[*index].failure = Some(format!("{error:#}"));
            }
        }
        // Each round begins with another strategy.
        if running.len() > 1 {
            running.rotate_left(1);
        }
    }
}

/// The proved strategies, each with a process that has computed once.
///
/// On a GPU, where compilers take most of the time, all are proved and compiled at the same time;
/// on the processor, one after the other.
fn ready(
    entry: &Entry,
    strategies: &[Strategy],
    programs: &Programs,
) -> Vec<(Outcome, Result<Ready>)> {
    let one = |strategy: &Strategy| {
        let mut outcome = Outcome {
            strategy: strategy.id.clone(),
            role: strategy.role,
            about: None,
            failure: None,
            proof: None,
            timing: None,
        };
        let ready = prove(entry, strategy, programs, &mut outcome)
            .and_then(|()| Ready::start(entry, strategy, programs));
        (outcome, ready)
    };
    if !programs.is_on_gpu {
        return strategies.iter().map(one).collect();
    }
    std::thread::scope(|scope| {
        let all: Vec<_> =
            strategies.iter().map(|strategy| scope.spawn(move || one(strategy))).collect();
        all.into_iter().map(|one| one.join().expect("no strategy panics here")).collect()
    })
}

/// A process with the problem, after its first repetition.
struct Ready {
    worker: Worker,
    first_ns: f64,
}

impl Ready {
    fn start(entry: &Entry, strategy: &Strategy, programs: &Programs) -> Result<Self> {
        let mut worker = Worker::start(programs, strategy, &entry.problem)?;
        let first_ns = worker.repeat(1)?.wall_ns as f64;
        Ok(Self { worker, first_ns })
    }
}

fn prove(
    entry: &Entry,
    strategy: &Strategy,
    programs: &Programs,
    outcome: &mut Outcome,
) -> Result<()> {
    let small = entry.problem.task().small();
    let mut worker = Worker::start(programs, strategy, &small)?;
    outcome.about = Some(worker.about.clone());
    let task = small.task();
    let mut proof = task.compare(&strategy.id, &worker.prove()?, &task.reference()?)?;
    if programs.is_on_gpu {
        proof.tolerance = proof.tolerance.max(task.tolerance_on_gpu());
    }
    outcome.proof = Some(proof);
    let Proof { error, tolerance } = proof;
    if error > tolerance {
        bail!("wrong: error {error:.1e} where {tolerance:.1e} is allowed");
    }
    Ok(())
}

/// A strategy that waits for its turns.
struct Turn {
    worker: Worker,
    timing: Timing,
    /// Whether a repetition off the clock comes before each sample.
    warms_up: bool,
}

impl Turn {
    /// Finds the repetitions per sample.
    fn start(Ready { mut worker, first_ns }: Ready, effort: Effort) -> Result<Self> {
        let mut repetitions = 1;
        let warms_up;
        loop {
            let wall_ns = u128::from(worker.repeat(repetitions)?.wall_ns);
            if wall_ns >= effort.sample.as_nanos() / 2 {
                let each = wall_ns / u128::from(repetitions);
                // Not the first repetition, which may include compilation.
                warms_up = each < WARM_BY_ITSELF.as_nanos();
                let needed = effort.sample.as_nanos().div_ceil(each.max(1));
                repetitions = u64::try_from(needed.max(1))?;
                break;
            }
            repetitions *= 2;
        }
        Ok(Self { worker, timing: Timing::empty(repetitions, first_ns), warms_up })
    }

    /// Warms up for as many repetitions per sample as another process took.
    fn again(Ready { mut worker, first_ns }: Ready, repetitions: u64) -> Result<Self> {
        let wall_ns = u128::from(worker.repeat(repetitions)?.wall_ns);
        let warms_up = wall_ns / u128::from(repetitions) < WARM_BY_ITSELF.as_nanos();
        Ok(Self { worker, timing: Timing::empty(repetitions, first_ns), warms_up })
    }

    fn sample(&mut self) -> Result<()> {
        std::thread::sleep(SETTLE);
        if self.warms_up {
            // Brings the caches and the clock frequency back to this strategy.
            self.worker.repeat(1)?;
        }
        let elapsed = self.worker.repeat(self.timing.repetitions)?;
        let repetitions = self.timing.repetitions as f64;
        self.timing.wall_ns.push(elapsed.wall_ns as f64 / repetitions);
        self.timing.cpu_ns.push(elapsed.cpu_ns as f64 / repetitions);
        (self.timing.peak_bytes, self.timing.base_bytes) = (elapsed.peak_bytes, elapsed.base_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_strategy_takes_few_samples_and_a_fast_one_all() {
        let after = |samples: usize, each: Duration| Timing {
            wall_ns: vec![each.as_nanos() as f64 / 2.0; samples],
            ..Timing::empty(2, 0.0)
        };
        let slow = Duration::from_secs(6);
        assert!(!after(2, slow).has_enough() && after(3, slow).has_enough());
        assert!(!after(40, Duration::from_millis(100)).has_enough());
    }

    #[test]
    fn samples_of_several_processes_are_told_apart() {
        let of = |samples: &[f64]| Timing {
            wall_ns: samples.to_vec(),
            cpu_ns: samples.to_vec(),
            ..Timing::empty(1, 0.0)
        };
        let mut timing = of(&[1.0, 2.0]);
        timing.append(of(&[3.0]));
        timing.append(of(&[4.0, 5.0]));
        let processes: Vec<_> = timing.processes(1).collect();
        assert_eq!(processes, [&[1.0, 2.0][..], &[3.0], &[4.0, 5.0]]);
        assert_eq!(timing.summary(2).expect("samples").median, 3.0);
    }
}
