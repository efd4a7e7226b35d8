//! Checks of the parts that a training run depends on, on this machine and device.

use std::convert::Infallible;
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use serde::Serialize;
use updraft_precision::{Parity, Policy, attempt};
use updraft_trainer::{
    Control, Ema, EmaConfig, Event, Finished, Mode, Run, RunData, RunSettings, StepContext, Task,
    Tensors, keeps_statistics, list_checkpoints, recompute_batch_norms, switched_off_layers,
};

use crate::config::Plan;
use crate::error::{Cause, RunError};
use crate::task::{BatchOf, StreamUse, Streams, Workload};

/// The arguments of a verification.
pub struct VerifyInputs<'a> {
    /// The plan that the workload was opened with.
    pub plan: &'a Plan,
    /// The same plan with other numbers of workers.
    pub with_workers: &'a [Plan],
    /// The parts to check, of `loader`, `batch norm`, `dropout`, `EMA`, `precision` and `resume`.
    pub parts: &'a [&'static str],
    /// The plain device.
    pub device: &'a Device,
    /// An empty folder for checkpoints.
    pub scratch: &'a Path,
    /// Returns whether to stop; called between parts and between steps.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// The result for one part of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// The part, of [`VerifyInputs::parts`], or `int8` or `cache`.
    pub part: &'static str,
    /// Whether it works.
    pub passed: bool,
    /// The measurement, or the error.
    pub message: String,
}

/// The tolerance for rounding in another order, relative to the largest value.
const ROUNDING: f64 = 1e-4;

/// The batches whose statistics are recomputed twice.
const NOISY_BATCHES: usize = 2;

/// Checks each part, even if another one fails.
pub(super) fn verify<W: Workload>(
    workload: &W,
    inputs: &VerifyInputs<'_>,
) -> Result<Vec<CheckResult>, RunError> {
    let streams = workload.streams(inputs.plan, StreamUse::Reading)?;
    let device = inputs.device.clone().autodiff();
    device.seed(inputs.plan.seed);
    // As a run begins: networks may be fitted to the data.
    let model = workload.prepare(inputs.plan, workload.init(&device), &device)?;
    let bench = Bench { workload, inputs, device, streams, model };
    let mut results = Vec::new();
    for &part in inputs.parts {
        if (inputs.is_stopped)() {
            return Err(RunError::Stopped { what: "all parts were tried" });
        }
        let seen = match part {
            "loader" => bench.loader(),
            "batch norm" => bench.batch_norm(),
            "dropout" => bench.dropout(),
            "EMA" => bench.ema(),
            "precision" => bench.precision(),
            "resume" => bench.resume(),
            _ => Err("there is no such part".into()),
        };
        let (passed, message) = match seen {
            Ok(message) => (true, message),
            Err(fault) => (false, fault.to_string()),
        };
        results.push(CheckResult { part, passed, message });
    }
    Ok(results)
}

/// The observation, or the reason why the part fails.
type Seen = Result<String, Cause>;

struct Bench<'a, W: Workload> {
    workload: &'a W,
    inputs: &'a VerifyInputs<'a>,
    /// With autodiff.
    device: Device,
    streams: Streams<BatchOf<W>>,
    /// What a run begins with.
    model: W::Model,
}

type InputOf<W> = <<W as Workload>::Task as Task<<W as Workload>::Model>>::Input;
type TargetOf<W> = <<W as Workload>::Task as Task<<W as Workload>::Model>>::Target;

impl<W: Workload> Bench<'_, W> {
    /// The model with which a run of the plan begins, and the random numbers that follow.
    fn model(&self, policy: Policy) -> W::Model {
        self.device.seed(self.inputs.plan.seed);
        policy.autocast(attempt(&self.model))
    }

    fn batch(&self) -> Result<(InputOf<W>, TargetOf<W>), Cause> {
        let batch =
            self.streams.train.epoch(0).next().ok_or("the training data has no batch")??;
        self.workload.task().place(batch, &self.device)
    }

    /// Trains in a separate folder until the given step.
    fn train(
        &self,
        run: Run<W::Model>,
        folder: &str,
        stop_after: Option<u64>,
    ) -> Result<Finished<W::Model>, Cause> {
        let plan = self.inputs.plan;
        let folder = self.inputs.scratch.join(folder);
        let settings =
            RunSettings { criterion: "train-loss".parse()?, ..plan.run_settings(&folder) };
        let data = RunData { train: &*self.streams.train, test: None };
        let finished =
            run.train(self.workload.task(), &settings, data, &self.device, &mut |event, _| {
                match event {
                    Event::Step(report) if Some(report.step + 1) == stop_after => Control::Stop,
                    _ if (self.inputs.is_stopped)() => Control::Stop,
                    _ => Control::Continue,
                }
            })?;
        Ok(finished)
    }

    /// Checks that the batches are equal for any number of workers, and when resumed in an epoch.
    fn loader(&self) -> Seen {
        let whole: Vec<_> = self.streams.train.epoch(1).collect::<Result<_, _>>()?;
        for plan in self.inputs.with_workers {
            let train = self.workload.streams(plan, StreamUse::Reading)?.train;
            let mut epoch = train.epoch(1);
            let mut batches = vec![epoch.next().ok_or("the training data has no batch")??];
            let rest = train.resume(1, &epoch.state())?;
            batches.extend(rest.collect::<Result<Vec<_>, _>>()?);
            if batches != whole {
                return Err("the batches differ".into());
            }
        }
        let count = whole.len();
        Ok(format!("{count} batches, the same bits for any number of workers and when resumed"))
    }

    /// Checks that statistics recomputed on one batch are the statistics of that batch.
    fn batch_norm(&self) -> Seen {
        let (task, model) = (self.workload.task(), self.model(Policy::F32));
        let (input, target) = self.batch()?;
        let before = numbers(&model.valid());
        let context =
            StepContext { mode: Mode::Training, epoch: 0, step: 0, seed: self.inputs.plan.seed };
        let batch: Result<_, Infallible> = Ok((input.clone(), task.samples(&target)));
        let exact = recompute_batch_norms(
            &model,
            &|model, input| drop(task.forward(model, input, &context)),
            &mut [batch].into_iter(),
            &mut |_| Control::Continue,
        );
        let exact = exact?.ok_or("it was stopped")?;
        if numbers(&model.valid()) != before {
            return Err("the given model changed".into());
        }
        let trained = task.forward(&model, input.clone(), &context).without_graph();
        let served = task.forward(&exact, input.without_graph(), &StepContext::evaluation());
        let parity = Parity::between(&trained.to_floats(), &served.to_floats())?;
        within(parity.max_rel, 1e-3, "outputs differ")?;
        let off = parity.max_rel;
        Ok(format!("outputs agree with the batch's own statistics to {off:.0e}"))
    }

    /// Checks that recomputed statistics contain no noise of dropout, which training has.
    fn dropout(&self) -> Seen {
        let (task, model) = (self.workload.task(), self.model(Policy::F32));
        let noisy = switched_off_layers(&model);
        if noisy == 0 || !keeps_statistics(&model) {
            return Err("the model has no dropout beside statistics".into());
        }
        let context =
            StepContext { mode: Mode::Training, epoch: 0, step: 0, seed: self.inputs.plan.seed };
        let recomputed = |seed| -> Result<_, Cause> {
            let batches = self.streams.train.epoch(0).take(NOISY_BATCHES).map(|batch| {
                let (input, target) = task.place(batch?, &self.device)?;
                Ok::<_, Cause>((input, task.samples(&target)))
            });
            self.device.seed(seed);
            let exact = recompute_batch_norms(
                &model,
                &|model, input| drop(task.forward(model, input, &context)),
                &mut { batches },
                &mut |_| Control::Continue,
            );
            Ok(numbers(&exact?.ok_or("it was stopped")?))
        };
        let seeds = [1, 2].map(|more| self.inputs.plan.seed.wrapping_add(more));
        let [first, second] = [recomputed(seeds[0])?, recomputed(seeds[1])?];
        if first == numbers(&model.valid()) {
            return Err("the statistics did not change".into());
        }
        if first != second {
            return Err("the statistics depend on the random numbers of dropout".into());
        }
        let (input, _) = self.batch()?;
        let trained = seeds.map(|seed| {
            self.device.seed(seed);
            task.forward(&model, input.clone(), &context).without_graph().to_floats()
        });
        let noise = Parity::between(&trained[0], &trained[1])?.max_rel;
        if noise == 0.0 {
            return Err("training has no noise".into());
        }
        Ok(format!(
            "statistics without the noise of {noisy} layers, which changes outputs in training by \
             {:.0} %",
            100.0 * noise
        ))
    }

    /// Checks that with decay 0 the average equals the live model.
    fn ema(&self) -> Seen {
        let model = self.model(Policy::F32);
        let mut ema = Ema::new(EmaConfig { decay: 0.0 }, &model);
        let optimizer = self.inputs.plan.train.optimizer.init();
        let trained = self.train(Run::new(model, optimizer), "ema", Some(2))?;
        let before = numbers(ema.average());
        ema.update(&trained.model);
        let (live, average) = (numbers(&trained.model.valid()), numbers(ema.average()));
        if before == average {
            return Err("the average did not change".into());
        }
        within(Parity::between(&live, &average)?.max_rel, ROUNDING, "it is off")?;
        Ok(format!("follows all {} numbers", live.len()))
    }

    /// Checks that mixed precision approximates f32.
    fn precision(&self) -> Seen {
        let mixed = [Policy::BF16_MIXED, Policy::F16_MIXED];
        let Some(mixed) = mixed.into_iter().find(|mixed| mixed.check_device(&self.device).is_ok())
        else {
            return Ok("the device has neither bf16 nor f16: there is nothing to compare".into());
        };
        let (input, _) = self.batch()?;
        let task = self.workload.task();
        let outputs = [Policy::F32, mixed].map(|policy| {
            let model = self.model(policy).valid();
            let input = input.clone().without_graph().cast_floats(policy.compute);
            let output = policy.scope(|| task.forward(&model, input, &StepContext::evaluation()));
            output.cast_floats(policy.output).to_floats()
        });
        let parity = Parity::between(&outputs[0], &outputs[1])?;
        if parity.cosine <= 0.99 {
            return Err(format!("{mixed} and f32 differ: cosine {:.4}", parity.cosine).into());
        }
        Ok(format!("{mixed} keeps {:.0} dB of the signal of f32", parity.sqnr_db))
    }

    /// Checks that a resumed run ends with the weights of an uninterrupted run.
    fn resume(&self) -> Seen {
        let optimizer = || self.inputs.plan.train.optimizer.init();
        let fresh = || Run::new(self.model(Policy::F32), optimizer());
        let whole = self.train(fresh(), "whole", None)?;
        self.train(fresh(), "stopped", Some(3))?;
        let folder = self.inputs.scratch.join("stopped").join("checkpoints");
        let newest =
            list_checkpoints(&folder)?.pop().ok_or("the stopped run left no checkpoint")?;
        let run = Run::resume(&newest, self.model(Policy::F32), optimizer())?;
        let resumed = self.train(run, "stopped", None)?;
        if resumed.steps != whole.steps {
            return Err(format!("{} updates, not {}", resumed.steps, whole.steps).into());
        }
        let mut reached = "to the same bits".to_owned();
        for (whole, resumed) in [(&whole.model, &resumed.model), (&whole.served, &resumed.served)] {
            let (whole, resumed) = (numbers(&whole.valid()), numbers(&resumed.valid()));
            let parity = Parity::between(&whole, &resumed)?;
            within(parity.max_rel, ROUNDING, "it is off")?;
            if parity.max_abs > 0.0 {
                reached = format!("to {:.0e} of the largest number", parity.max_rel);
            }
        }
        Ok(format!("continues {reached} after a stop in the middle of an epoch"))
    }
}

fn within(difference: f64, bound: f64, what: &str) -> Result<(), Cause> {
    if difference < bound {
        return Ok(());
    }
    Err(format!("{what} by {difference:.1e} of the largest").into())
}

/// Every value of a model, including statistics.
fn numbers<M: Module>(model: &M) -> Vec<f32> {
    struct Read(Vec<f32>);
    impl ModuleVisitor for Read {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.extend(param.base().into_data().iter::<f32>());
        }
    }
    let mut read = Read(Vec::new());
    model.visit(&mut read);
    read.0
}
