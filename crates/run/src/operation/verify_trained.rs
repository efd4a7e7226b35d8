//! Checks of what happens with a trained model: int8, and evaluation with and without a cache.

use std::path::Path;
use std::time::Instant;

use burn::tensor::Device;
use updraft_device::Selection;
use updraft_distributed::{Alone, Shared};
use updraft_precision::Parity;
use updraft_quant::slices::Isa;
use updraft_quant::{Calibration, QuantizedModel, Workspace};
use updraft_trainer::{Control, Evaluation, Event};

use super::any::AnyWorkload;
use super::evaluate_on_ranks::{EvaluatedForm, RankEvaluation};
use super::timing::TimedWork;
use super::train::{Beginning, Observer, Training};
use super::verify::CheckResult;
use crate::config::Plan;
use crate::error::{Cause, RunError};
use crate::folder::RunFolder;
use crate::int8_network::{Int8Network, run_by_sample};
use crate::int8_record::Int8Record;
use crate::task::Opening;

/// The arguments of [`verify_trained`].
pub struct TrainedInputs<'a> {
    /// The plan of the run that is trained.
    pub plan: &'a Plan,
    /// The same plan with data that is prepared again for every pass, if the task has a cache.
    pub without_cache: Option<&'a Plan>,
    /// The plain device.
    pub device: &'a Device,
    /// How the device was chosen.
    pub selection: &'a Selection,
    /// An existing folder for the run.
    pub scratch: &'a Path,
    /// Returns whether to stop; called between parts and between steps.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// The least cosine between the outputs of a short trained network in f32 and in int8.
const LEAST_COSINE: f64 = 0.98;

/// Training samples for the ranges of int8.
const CALIBRATION: usize = 32;

/// Batches that are timed of each evaluation; the first of them are not timed.
const TIMED_BATCHES: usize = 12;

/// Trains a run, and checks what is done with its model: the part `int8` quantizes it, writes the
/// network, loads it and scores it; the part `cache` scores it with and without a cache of the data,
/// and reports the times of both.
///
/// A task whose models cannot be quantized has no part `int8`, one without a cache no part `cache`.
///
/// # Errors
/// [`RunError::Stopped`], and the errors of training; those of the parts are their results.
pub fn verify_trained(inputs: &TrainedInputs<'_>) -> Result<Vec<CheckResult>, RunError> {
    let stopped = RunError::Stopped { what: "all parts were tried" };
    let quantizes = inputs.plan.quantizer().is_ok();
    if !quantizes && inputs.without_cache.is_none() {
        return Ok(Vec::new());
    }
    if (inputs.is_stopped)() {
        return Err(stopped);
    }
    let training = Training {
        plan: inputs.plan,
        device: inputs.device,
        selection: inputs.selection,
        runs: inputs.scratch,
        resumed: None,
        collective: Shared::new(Alone),
        trace_steps: None,
        began: (Instant::now(), None),
    };
    let mut quiet = Quiet { is_stopped: inputs.is_stopped };
    let folder = inputs.open(inputs.plan, None)?.train(training, &mut quiet)?.folder;
    let mut results = Vec::new();
    let mut parts: Vec<(_, &dyn Fn() -> Seen)> = Vec::new();
    let int8 = || inputs.int8(&folder);
    if quantizes {
        parts.push(("int8", &int8));
    }
    let cache = || inputs.cache(&folder);
    if inputs.without_cache.is_some() {
        parts.push(("cache", &cache));
    }
    for (part, check) in parts {
        if (inputs.is_stopped)() {
            return Err(stopped);
        }
        let (passed, message) = match check() {
            Ok(message) => (true, message),
            // What a part says that was interrupted is no result.
            Err(_) if (inputs.is_stopped)() => return Err(stopped),
            Err(fault) => (false, fault.to_string()),
        };
        results.push(CheckResult { part, passed, message });
    }
    Ok(results)
}

/// The observation, or the reason why the part fails.
type Seen = Result<String, Cause>;

impl TrainedInputs<'_> {
    fn open(&self, plan: &Plan, run: Option<&RunFolder>) -> Result<Box<dyn AnyWorkload>, RunError> {
        plan.task.open(plan, Opening { dir: None, run, progress: &mut |_, _| {} })
    }

    fn score(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        form: EvaluatedForm<'_>,
    ) -> Result<Evaluation, Cause> {
        let workload = self.open(plan, Some(folder))?;
        let (device, selection) = (self.device, self.selection);
        let collective = &mut Alone;
        let captured = None;
        let evaluation =
            RankEvaluation { plan, folder, form, device, selection, collective, captured };
        let poll = &mut |_| match (self.is_stopped)() {
            true => Control::Stop,
            false => Control::Continue,
        };
        Ok(workload.evaluate_on_ranks(evaluation, poll)?.ok_or("it was stopped")?)
    }

    /// Checks that a network is quantized, written and read, that it approximates the model, and
    /// that the one that is served returns the bits of the one that was quantized.
    fn int8(&self, folder: &RunFolder) -> Seen {
        let plan = self.plan;
        let network = self.open(plan, Some(folder))?.into_quantizable(plan, folder, self.device)?;
        let graph = network.capture()?;
        let chosen = network.calibration(folder, CALIBRATION)?;
        let (batches, _) = chosen.batches()?;
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        let model = QuantizedModel::try_quantize(&graph, batches, Calibration::MeanSquaredError)?;
        let model = model.for_processor(Isa::detect());
        let file = model.to_bytes();
        folder.write(Int8Network::FILE, &file)?;
        let record = Int8Record::of_served(folder, plan)?.with_network(&file);
        folder.write_json(Int8Network::REPORT, &record)?;
        let served = Int8Network::open(folder, plan)?;
        let x = network.first_inputs()?;
        let right = network.outputs(&x);
        // Every instruction set returns the same bits.
        let quantized = run_by_sample(&model, &x, (Isa::Portable, 1), &mut Workspace::new());
        let y = served.outputs(&x);
        if bits(&y) != bits(&quantized) {
            return Err("the network that is served returns other bits".into());
        }
        let parity = Parity::between(&right, &y)?;
        if parity.cosine < LEAST_COSINE {
            return Err(format!("int8 and f32 differ: cosine {:.4}", parity.cosine).into());
        }
        let loss = |form| Ok::<_, Cause>(self.score(plan, folder, form)?.loss());
        let [float, int8] = [loss(EvaluatedForm::Served)?, loss(EvaluatedForm::Int8(&served))?];
        let share = 100.0 * model.plan().int8_share();
        Ok(format!(
            "keeps {:.0} dB of the signal of f32 with {share:.0} % of the products in int8; test \
             loss {int8:.3}, {float:.3} in f32; the network that is served returns the bits of the \
             one that was quantized",
            parity.sqnr_db
        ))
    }

    /// Checks that a cache changes no result, and measures both.
    fn cache(&self, folder: &RunFolder) -> Seen {
        let without = self.without_cache.ok_or("the task has no cache")?;
        let plans = [self.plan, without];
        let scores = [
            self.score(plans[0], folder, EvaluatedForm::Served)?,
            self.score(plans[1], folder, EvaluatedForm::Served)?,
        ];
        if scores[0] != scores[1] {
            let [cached, other] = scores.each_ref().map(Evaluation::loss);
            return Err(format!("the loss is {cached} with a cache and {other} without").into());
        }
        let mut ms = [0.0; 2];
        for (ms, plan) in ms.iter_mut().zip(plans) {
            let workload = self.open(plan, Some(folder))?;
            let timed =
                workload.time_work(plan, TimedWork::Inference, TIMED_BATCHES, self.device)?;
            let mut times: Vec<f64> =
                timed.steps.iter().map(|step| 1e3 * step.seconds / step.samples as f64).collect();
            times.sort_by(f64::total_cmp);
            *ms = times.get(times.len() / 2).copied().ok_or("there is no second batch")?;
        }
        let [cached, other] = ms;
        Ok(format!(
            "the same scores; a test sample takes {cached:.3} ms from the cache, {other:.3} without it"
        ))
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Shows nothing, and stops when asked.
struct Quiet<'a> {
    is_stopped: &'a dyn Fn() -> bool,
}

impl Observer for Quiet<'_> {
    fn begin(&mut self, _: &Beginning<'_>) -> Result<(), RunError> {
        Ok(())
    }

    fn event(&mut self, _: &Event) -> Control {
        if (self.is_stopped)() { Control::Stop } else { Control::Continue }
    }
}
