//! The side of a process that measures.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use updraft_device::{PeakSampler, applied, clean_up};
use updraft_run::{Plan, Registry, RunError, make_plain_default, runs_kernels};

use super::compared::Compared;
use super::order::{Answer, InUse, Order, Step, Work};
use crate::child::{die_first, end_with_the_command};
use crate::command::{cannot, open};
use crate::device::choose;
use crate::progress::Display;
use crate::stop::NothingToSave;

/// The interval at which the memory of a device is sampled.
const INTERVAL: Duration = Duration::from_millis(10);

/// Measures what the file of an order says, and writes the answer.
pub(crate) fn measure(registry: Registry, order: &Path) -> Result<()> {
    let started = Instant::now();
    // A signal ends this process: it saves nothing.
    let _unasked = NothingToSave::begin();
    die_first();
    end_with_the_command();
    let text = std::fs::read(order).map_err(|cause| cannot("read", order, cause))?;
    let order: Order = serde_json::from_slice(&text).context("the order of a measurement")?;
    let plan = Plan::read(registry, &order.plan, Path::new("plan"), &[])?.plan;
    let (device, selection) = choose(&plan.device)?;
    if order.plain {
        make_plain_default();
    }
    let workload = open(&plan, None, None, &mut Display::new())?;
    let open_s = started.elapsed().as_secs_f64();
    // Of what opening the data took, only what stays there counts for the peak.
    clean_up(&device)?;
    let sampler = PeakSampler::start(&device, INTERVAL)?;
    let timed = workload.time_work(&plan, order.work.timed(), order.steps, &device)?;
    let peak = sampler.stop()?;
    // Before the comparison, which takes memory of its own.
    let peak_bytes = updraft_device::memory().peak_resident_bytes;
    if let Some(compared) = &order.compared {
        clean_up(&device)?;
        let parameters = workload.initial_parameters(&plan, &device)?;
        let found = match order.work {
            Work::Training => {
                Compared::of_gradients(workload.initial_gradients(&plan, &device)?, &parameters)
            }
            Work::Inference => {
                let mut found = None;
                workload.initial_outputs(&plan, &device, &mut |outputs| {
                    found = Some(Compared::of_outputs(outputs, compared.samples, &parameters)?);
                    Ok::<_, RunError>(())
                })?;
                found.context("the model has no outputs")?
            }
        };
        found.write(&compared.file)?;
    }
    let in_use = InUse {
        device: selection.id.to_string(),
        kernels: runs_kernels(&device),
        threads: applied(&device).threads,
        precision: plan.precision.to_string(),
        batch: plan.train.batch,
    };
    let steps = timed.steps.iter().map(|step| {
        let (samples, seconds, data_s) = (step.samples, step.seconds, step.data_s);
        Step { samples, seconds, data_s }
    });
    let answer = Answer {
        process: std::process::id(),
        in_use,
        open_s,
        first_s: timed.first_s,
        steps: steps.collect(),
        peak_bytes,
        device_peak_bytes: peak.in_use_bytes,
        device_reserved_bytes: peak.reserved_bytes,
    };
    std::fs::write(&order.answer, serde_json::to_vec(&answer)?)
        .map_err(|cause| cannot("write", &order.answer, cause))
}
