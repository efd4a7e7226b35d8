//! The search for the largest batch that fits into memory, with one process per tried size.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use updraft_device::{MemoryOwner, PeakSampler, Selection, clean_up};
use updraft_run::{AnyWorkload, AutoBatchPlan, Plan, Registry};
use updraft_trainer::{BatchFound, BatchSearch, Fit};

use crate::Failed;
use crate::child::{die_first, ran_out_of_memory, says_out_of_memory};
use crate::command::stopped;
use crate::device::choose;
use crate::found_batches::{self, SearchKey};
use crate::progress::Display;
use crate::stop;
use crate::wrap::hanging;

/// The result of trying a batch size in a process.
#[derive(Debug, Serialize, Deserialize)]
struct Tried {
    /// Its peak memory: what the allocator of the device reserved, or the resident memory of the
    /// process on devices that compute in the machine's.
    peak_bytes: u64,
}

/// The interval at which the memory of a device is sampled.
const INTERVAL: Duration = Duration::from_millis(10);

/// A peak is close to the budget from a twentieth below it.
///
/// The peaks of equal processes differ, since the system places their memory at random: by up to
/// 3.8 % of 57 MiB, 1.7 % of 160 MiB and 0.4 % of 340 MiB (4 to 16 runs of `batch-probe` each, on
/// Linux, beside compilers). Without randomized addresses (`setarch -R`) they differ by 0.2 %.
const CLOSE: u64 = 20;

/// A search for the largest batch of a plan whose training step fits into memory.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    plan: &'a Plan,
    /// The properties of the data that the model depends on.
    signature: Value,
    search: BatchSearch,
    /// The memory limit of a process, of the device if it has memory of its own.
    pub(crate) budget_bytes: u64,
    /// The source of the budget.
    budget: &'static str,
    /// The number of training samples: a larger batch would never be filled.
    pub(crate) samples: usize,
    /// The largest measured peak of each size that was tried.
    peaks: RefCell<BTreeMap<usize, u64>>,
}

impl<'a> Trial<'a> {
    /// A search with the settings of the plan or their defaults; `budget_mib` is `--budget-mib`.
    ///
    /// # Errors
    /// An error for fewer training samples than the smallest batch, and if the free memory of the
    /// device is unknown.
    pub(crate) fn new(
        plan: &'a Plan,
        workload: &dyn AnyWorkload,
        selection: &Selection,
        budget_mib: Option<u64>,
    ) -> Result<Self> {
        let auto = plan.train.auto_batch.unwrap_or_default();
        let budget = match (budget_mib, auto.budget_mib) {
            (Some(_), _) => "--budget-mib",
            (None, Some(_)) => "`train.auto_batch.budget_mib`",
            (None, None) => "what the device has available",
        };
        let auto = AutoBatchPlan { budget_mib: budget_mib.or(auto.budget_mib), ..auto };
        let budget_bytes = auto.budget_bytes(selection.facts.as_ref())?;
        let samples = workload.about().train_samples;
        let search = auto.search();
        if search.least > samples {
            bail!(
                "`train.auto_batch.least` is {}; it must be at most the number of training \
                 samples, {samples}",
                search.least
            );
        }
        let search = BatchSearch { most: search.most.min(samples), ..search };
        let signature = workload.signature();
        let peaks = RefCell::default();
        Ok(Self { plan, signature, search, budget_bytes, budget, samples, peaks })
    }

    /// Searches for the largest batch; `note` receives each size.
    ///
    /// # Errors
    /// An error with the budget if the smallest batch does not fit.
    pub(crate) fn search(&self, note: &mut dyn FnMut(usize, Fit)) -> Result<BatchFound> {
        let found = self.search.run(&mut |batch| {
            let fit = self.fits(batch)?;
            note(batch, fit);
            Ok::<_, anyhow::Error>(fit)
        })?;
        found.ok_or_else(|| {
            anyhow!(
                "a batch of {} does not fit into {} MiB, {}; give it more, train a smaller model, \
                 or set `train.recompute`",
                self.search.least,
                self.budget_bytes >> 20,
                self.budget,
            )
        })
    }

    /// The limit of the found batch, as the end of a line.
    pub(crate) fn bound(&self, found: &BatchFound) -> String {
        match found.too_large {
            None if found.largest == self.samples => ", all training samples".to_owned(),
            _ => String::new(),
        }
    }

    /// Whether a training step and an evaluation with this batch stay within the budget.
    pub(crate) fn fits(&self, batch: usize) -> Result<Fit> {
        fits_within(self.budget_bytes, || {
            let peak = self.peak_bytes(batch)?;
            if let Some(bytes) = peak {
                let mut peaks = self.peaks.borrow_mut();
                let most = peaks.entry(batch).or_default();
                *most = bytes.max(*most);
            }
            Ok(peak)
        })
    }

    /// The memory of a step of a size that was tried.
    pub(crate) fn needed_bytes(&self, batch: usize) -> Option<u64> {
        self.peaks.borrow().get(&batch).copied()
    }

    /// The peak memory of a process that tries this batch; `None` for one that the system kills for
    /// its memory. Other failures are errors.
    fn peak_bytes(&self, batch: usize) -> Result<Option<u64>> {
        if stop::requested() {
            bail!(stopped("the batch size was found"));
        }
        let program = std::env::current_exe().context("the program cannot find itself")?;
        let mut child = Command::new(program)
            .args(["batch-probe", "--batch", &batch.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start a process that tries a batch size")?;
        // The signature first, on one line: compact JSON has no line breaks.
        let plan = format!("{}\n{}", self.signature, self.plan.to_toml());
        let mut input = child.stdin.take().ok_or_else(|| anyhow!("the process has no input"))?;
        // The exit code of a process that already ended reports the cause.
        let _ = input.write_all(plan.as_bytes());
        drop(input);
        let output = child.wait_with_output().context("a process that tried a batch size")?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {
                let tried: Tried = serde_json::from_slice(&output.stdout)
                    .context("a process that tried a batch size printed something else")?;
                Ok(Some(tried.peak_bytes))
            }
            None if !stop::requested() && ran_out_of_memory(output.status) => Ok(None),
            _ if says_out_of_memory(&said) => Ok(None),
            _ => {
                let last = said.lines().next_back().unwrap_or("it said nothing");
                bail!(Failed(format!(
                    "a step of {batch} samples failed ({}): {last}",
                    output.status
                )))
            }
        }
    }
}

/// Whether a batch fits into `budget` bytes, where `peak` returns the memory of one more process.
///
/// A peak close to the budget counts only if a second process stays within it, too.
fn fits_within(budget: u64, mut peak: impl FnMut() -> Result<Option<u64>>) -> Result<Fit> {
    let fits = |peak: Option<u64>| peak.is_some_and(|bytes| bytes <= budget);
    let first = peak()?;
    let is_close = first.is_some_and(|bytes| budget.saturating_sub(bytes) < budget / CLOSE);
    let all = fits(first) && (!is_close || fits(peak()?));
    Ok(if all { Fit::Fits } else { Fit::TooLarge })
}

/// The batch size that `train.auto_batch` finds, which is also printed.
///
/// A search of an earlier run of the folder `runs` is not repeated.
pub(crate) fn fitting_batch(
    plan: &Plan,
    workload: &dyn AnyWorkload,
    selection: &Selection,
    runs: &Path,
    display: &Display,
) -> Result<usize> {
    let trial = Trial::new(plan, workload, selection, None)?;
    let auto = plan.train.auto_batch.unwrap_or_default();
    let key = SearchKey::new(plan, &trial.signature, selection, (&auto, trial.samples));
    let limits = auto.least..=auto.most.min(trial.samples);
    let known = found_batches::find(runs, &key, trial.budget_bytes);
    if let Some(batch) = known.filter(|batch| limits.contains(batch)) {
        let path = found_batches::path(runs);
        let text = format!("{batch}: found by an earlier run, kept in {}", path.display());
        display.line(&hanging("batch    ", &text));
        return Ok(batch);
    }
    let found = trial.search(&mut |_, _| {})?;
    if let Some(needed) = trial.needed_bytes(found.batch) {
        // The run does not need the file.
        if let Err(error) = found_batches::add(runs, key, (trial.budget_bytes, needed), found.batch)
        {
            tracing::warn!("{error:#}");
        }
    }
    let (batch, largest, probes) = (found.batch, found.largest, found.probes);
    let (mib, bound) = (trial.budget_bytes >> 20, trial.bound(&found));
    let text = format!("{batch}: {largest} fit into {mib} MiB{bound}, {probes} sizes tried");
    display.line(&hanging("batch    ", &text));
    Ok(found.batch)
}

/// Trains two steps and evaluates on example data, and reports the peak memory.
///
/// `text` is a signature on one line, then a plan.
pub(crate) fn try_batch(registry: Registry, text: &str, batch: usize) -> Result<String> {
    die_first();
    let (signature, plan) = text.split_once('\n').ok_or_else(|| anyhow!("no plan was given"))?;
    let signature = serde_json::from_str(signature).context("no signature was given")?;
    let plan = Plan::read(registry, plan, Path::new("plan"), &[])?.plan;
    let (device, selection) = choose(&plan.device)?;
    let owner = selection.facts.map_or(MemoryOwner::Machine, |facts| facts.memory_owner);
    let sampler = match owner {
        MemoryOwner::Device => Some(PeakSampler::start(&device, INTERVAL)?),
        MemoryOwner::Machine => None,
    };
    plan.rehearse(&signature, &device, batch)?;
    let reserved = sampler.map(PeakSampler::stop).transpose()?.and_then(|it| it.reserved_bytes);
    let peak_bytes = peak_of(owner, reserved, updraft_device::memory().peak_resident_bytes)?;
    clean_up(&device)?;
    Ok(serde_json::to_string(&Tried { peak_bytes })?)
}

/// The peak memory that a budget is about, of those that are known.
fn peak_of(owner: MemoryOwner, reserved: Option<u64>, resident: Option<u64>) -> Result<u64> {
    match owner {
        MemoryOwner::Device => reserved.ok_or_else(|| {
            anyhow!(
                "the backend of the device does not report how much memory it holds; set \
                 `train.batch` to a number"
            )
        }),
        MemoryOwner::Machine => resident
            .ok_or_else(|| anyhow!("this system does not report how much memory a process holds")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_of_the_memory_that_the_device_computes_in() {
        let of = |owner, reserved| peak_of(owner, reserved, Some(2000));
        assert_eq!(of(MemoryOwner::Device, Some(70)).expect("known"), 70);
        assert_eq!(of(MemoryOwner::Machine, Some(70)).expect("known"), 2000);
        assert_eq!(of(MemoryOwner::Machine, None).expect("known"), 2000);
        let error = of(MemoryOwner::Device, None).expect_err("not known").to_string();
        assert!(error.contains("`train.batch`"), "{error}");
    }

    #[test]
    fn a_peak_close_to_the_budget_is_measured_twice() {
        let cases: [(&[Option<u64>], Fit); 7] = [
            (&[Some(900)], Fit::Fits),
            (&[Some(950)], Fit::Fits),
            (&[Some(951), Some(1000)], Fit::Fits),
            (&[Some(1000), Some(1001)], Fit::TooLarge),
            (&[Some(980), None], Fit::TooLarge),
            (&[Some(1001)], Fit::TooLarge),
            (&[None], Fit::TooLarge),
        ];
        for (peaks, expected) in cases {
            let mut left = peaks.iter();
            let found = fits_within(1000, || Ok(*left.next().expect("one process too many")));
            assert_eq!(found.expect("no error"), expected, "{peaks:?}");
            assert_eq!(left.count(), 0, "{peaks:?}");
        }
    }
}
