//! `validate`: whether a trained model computes what another one, or another form of it, computes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use burn::tensor::{Device, FloatDType};
use clap::Args;
use updraft_data::{Progress, ProgressUnit};
use updraft_precision::{Parity, Policy};
use updraft_run::{
    Ability, AnyWorkload, Int8Network, MetricPair, ModelForm, Plan, RecomputePlan, Registry,
    RunError, TestOutputs, Validation,
};
use updraft_trainer::{BatchGradients, Control};

use super::validated::{Found, Tolerances, What};
use super::would::{Would, data_of, model_of};
use super::{OpenedRun, next_on, refused_as, stopped};
use crate::json::JsonArgs;
use crate::progress::Display;
use crate::wrap::hanging;
use crate::{Failed, stop};

const EXAMPLES: &str = "\
Examples:
  validate RUN --against int8                     the network of `quantize`
  validate RUN --against precision=bf16-mixed     another precision
  validate RUN --against checkpoint=160           an older checkpoint
  validate RUN --against recompute=element-wise   gradients of a training step
  validate RUN --against OTHER                    another run, on the same test
                                                  data
";

/// The tolerance of outputs, relative to the reference.
const TOLERANCE: f64 = 0.01;

/// The same for int8, whose activations have 8 bits.
const INT8_TOLERANCE: f64 = 0.1;

/// The tolerance of metrics: a hundredth of the value, or of all samples.
const METRIC_TOLERANCE: f64 = 0.01;

/// Compares the outputs of a trained model on its test data with those of another model, or of
/// another form of it.
///
/// Both get the same inputs. The exit code is 0 if the relative error of the outputs and the
/// difference of each metric are within their tolerances, and 1 otherwise.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ValidateArgs {
    /// The run folder of the reference
    run: PathBuf,
    /// Another run folder, or int8, precision=DTYPES, checkpoint=STEP, recompute=element-wise,
    /// recompute=segments
    #[arg(long, value_name = "RUN_OR_OPTION")]
    against: String,
    /// Use the checkpoint of this step as the reference instead of the served one
    #[arg(long, value_name = "STEP")]
    checkpoint: Option<u64>,
    /// The largest error of outputs or gradients that passes, relative to the reference in
    /// Euclidean norms [default: 0.01, for int8 0.1]
    #[arg(long, value_name = "ERROR", allow_negative_numbers = true)]
    tolerance: Option<f64>,
    /// The largest difference of a metric that passes: of fractions such as the accuracy as it is,
    /// of others relative to the reference
    #[arg(long, value_name = "DIFFERENCE", default_value_t = METRIC_TOLERANCE,
          allow_negative_numbers = true)]
    metric_tolerance: f64,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, default_value = "auto")]
    device: String,
    #[command(flatten)]
    json: JsonArgs,
}

/// What the reference is compared with.
enum Against {
    Int8,
    Precision(Policy),
    Checkpoint(u64),
    Recompute(RecomputePlan),
    Run(PathBuf),
}

impl Against {
    /// Reads `--against`.
    fn read(text: &str) -> Result<Self> {
        let unknown = || {
            format!(
                "--against is `{text}`; it must be an existing run folder, int8, \
                 precision=DTYPES, checkpoint=STEP, recompute=element-wise or recompute=segments"
            )
        };
        Ok(match text.split_once('=') {
            None if text == "int8" => Self::Int8,
            Some(("checkpoint", step)) => Self::Checkpoint(step.parse().with_context(unknown)?),
            Some(("precision", dtypes)) => {
                let policy: Policy = dtypes.parse().with_context(unknown)?;
                ensure!(
                    policy.param == FloatDType::F32,
                    "--against is `{text}`; it must store parameters in f32, as checkpoints do, \
                     for example bf16-mixed"
                );
                let dtypes = [policy.compute, policy.output];
                ensure!(
                    !dtypes.contains(&FloatDType::F64),
                    "--against is `{text}`; it must be without f64: data is made in f32"
                );
                Self::Precision(policy)
            }
            Some(("recompute", "element-wise")) => Self::Recompute(RecomputePlan::ElementWise),
            Some(("recompute", "segments")) => Self::Recompute(RecomputePlan::Segments),
            _ if Path::new(text).exists() => Self::Run(PathBuf::from(text)),
            _ => bail!("{}", unknown()),
        })
    }

    const fn tolerance(&self) -> f64 {
        match self {
            Self::Int8 => INT8_TOLERANCE,
            _ => TOLERANCE,
        }
    }
}

/// The models to compare, opened and checked.
struct Both {
    run: OpenedRun,
    against: Opened,
}

enum Opened {
    Int8(Box<Int8Network>),
    Precision(Policy),
    Recompute(RecomputePlan),
    /// Another run, or the same one at another checkpoint.
    Run(Box<OpenedRun>),
}

impl ValidateArgs {
    fn open(&self, registry: Registry, against: Against) -> Result<Both> {
        for (option, value) in
            [("--tolerance", self.tolerance), ("--metric-tolerance", Some(self.metric_tolerance))]
        {
            let value = value.unwrap_or(0.0);
            ensure!(value >= 0.0, "{option} is {value}; it must be at least 0");
        }
        let check = |plan: &Plan| match against {
            Against::Int8 => plan.quantizer().map(drop).map_err(refused_as("--against int8")),
            Against::Recompute(RecomputePlan::Segments) => plan
                .check_ability(Ability::Segments)
                .map_err(refused_as("--against recompute=segments")),
            _ => Ok(()),
        };
        let at = (self.run.as_path(), self.checkpoint);
        let run = OpenedRun::open_at(registry, at, &self.device, &check)?;
        let against = match against {
            Against::Int8 => Opened::Int8(Box::new(Int8Network::open(&run.folder, &run.plan)?)),
            Against::Precision(policy) => {
                let text = &self.against;
                ensure!(
                    policy != run.plan.precision,
                    "--against is `{text}`, the precision of the run: name another one"
                );
                let name = run.selection.id.to_string();
                policy.check_device(&run.device).map_err(|error| error.on(&name))?;
                Opened::Precision(policy)
            }
            Against::Recompute(recompute) => Opened::Recompute(recompute),
            Against::Checkpoint(step) => self.other(registry, (&self.run, Some(step)), &run)?,
            Against::Run(path) => self.other(registry, (&path, None), &run)?,
        };
        Ok(Both { run, against })
    }

    /// Opens the other run, which must be of the same task and another model.
    fn other(
        &self,
        registry: Registry,
        at: (&Path, Option<u64>),
        run: &OpenedRun,
    ) -> Result<Opened> {
        let mut other = OpenedRun::open_at(registry, at, &self.device, &|_| Ok(()))
            .with_context(|| format!("--against {}", self.against))?;
        let same = run.folder.served_checkpoint(&run.plan)?.canonicalize().ok()
            == other.folder.served_checkpoint(&other.plan)?.canonicalize().ok();
        ensure!(!same, "--against names the model of the run itself; name another one");
        let (task, of_other) = (run.plan.kind().name(), other.plan.kind().name());
        ensure!(
            task == of_other,
            "the run is of task `{task}`, and that of --against of task `{of_other}`; name runs of \
             one task"
        );
        // The same batches, so that the inputs are the same batch by batch.
        other.plan.set_batch(run.plan.train.batch);
        Ok(Opened::Run(Box::new(other)))
    }
}

/// The reference and what it is compared with, in words.
fn names(args: &ValidateArgs, both: &Both) -> Result<[String; 2]> {
    let step = |run: &OpenedRun| {
        let path = run.folder.served_checkpoint(&run.plan)?;
        let step = updraft_trainer::checkpoint_step(&path).unwrap_or(0);
        let path = run.folder.path().display();
        Ok::<_, RunError>(format!("{path}, step {step}, {}", run.plan.precision))
    };
    let against = match &both.against {
        Opened::Int8(_) => "its int8 network".to_owned(),
        Opened::Precision(policy) => format!("the same in {policy}"),
        Opened::Recompute(_) => format!("the same with {}", args.against),
        Opened::Run(other) => step(other)?,
    };
    Ok([step(&both.run)?, against])
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &ValidateArgs) -> Result<()> {
    let both = args.open(registry, Against::read(&args.against)?)?;
    let (run, data) = (&both.run, data_of(&both.run.plan, args.data.as_deref()));
    let model = model_of(&run.folder, &run.plan)?;
    let reads = format!("{model}, {} and {data}", args.against);
    Would::new(reads, "nothing; the comparison is printed").print()?;
    Ok(both.run.plan.task.find_data(args.data.as_deref())?)
}

/// Prints the comparison; an error if it exceeds a tolerance.
pub(crate) fn run(registry: Registry, args: &ValidateArgs) -> Result<()> {
    let against = Against::read(&args.against)?;
    let error = args.tolerance.unwrap_or(against.tolerance());
    let tolerances = Tolerances { error, metric: args.metric_tolerance };
    let both = args.open(registry, against)?;
    let [reference, result] = names(args, &both)?;
    let mut display = Display::new();
    let workload = both.run.workload(args.data.as_deref(), &mut display)?;
    let found = match &both.against {
        Opened::Recompute(recompute) => step(&*workload, &both.run, *recompute)?,
        _ => outputs(args, &*workload, &both, &mut display)?,
    };
    crate::print(&hanging("reference   ", &reference))?;
    crate::print(&hanging("against     ", &result))?;
    found.lines(tolerances).iter().try_for_each(|line| crate::print(line))?;
    let excess = found.excess(tolerances);
    args.json.print(&found.json((&reference, &result), tolerances, excess.is_none()))?;
    match excess {
        None => {
            next_on("report", &args.run);
            Ok(())
        }
        Some(excess) => Err(Failed(excess).into()),
    }
}

/// Compares the outputs for the test data.
fn outputs(
    args: &ValidateArgs,
    workload: &dyn AnyWorkload,
    both: &Both,
    display: &mut Display,
) -> Result<Found> {
    let OpenedRun { folder, plan, device, .. } = &both.run;
    let mut found = None;
    let total = workload.about().test_samples as u64;
    let mut compare =
        |reference: &mut dyn TestOutputs, result: &mut dyn TestOutputs, device: &Device| {
            let poll = &mut |samples: usize| {
                let unit = ProgressUnit::Samples;
                display.preparing("comparing", Progress { done: samples as u64, total, unit });
                if stop::requested() { Control::Stop } else { Control::Continue }
            };
            found = Validation::between(reference, result, device, poll)?;
            Ok(())
        };
    let form = match &both.against {
        Opened::Int8(network) => Some(ModelForm::Int8(network)),
        Opened::Precision(policy) => Some(ModelForm::Precision(*policy)),
        _ => None,
    };
    match (&both.against, form) {
        (Opened::Run(other), _) => {
            // The reference's data is that of the other run, too.
            workload.check(&other.folder)?;
            let data = other.workload(args.data.as_deref(), &mut Display::new())?;
            workload.test_outputs(plan, folder, ModelForm::Served, device, &mut |reference| {
                let served = ModelForm::Served;
                let receive =
                    &mut |result: &mut dyn TestOutputs| compare(reference, result, device);
                data.test_outputs(&other.plan, &other.folder, served, device, receive)
            })?;
        }
        (_, form) => {
            let form = form.unwrap_or(ModelForm::Served);
            workload.test_outputs(plan, folder, ModelForm::Served, device, &mut |reference| {
                workload.test_outputs(plan, folder, form, device, &mut |result| {
                    compare(reference, result, device)
                })
            })?;
        }
    }
    display.clear();
    let found = found.ok_or_else(|| stopped("all test samples were compared"))?;
    let Validation { samples, parity, ssim, metrics, .. } = found;
    let short = format!("test {}", workload.about().samples);
    Ok(Found { what: What::Outputs, samples, short, parity, ssim, metrics })
}

/// Compares the gradients of a training step.
fn step(workload: &dyn AnyWorkload, run: &OpenedRun, recompute: RecomputePlan) -> Result<Found> {
    let OpenedRun { folder, plan, device, .. } = run;
    let of = |recompute| workload.gradients(plan, folder, recompute, device);
    let (plain, other): (BatchGradients, BatchGradients) =
        (of(RecomputePlan::None)?, of(recompute)?);
    let spec = plan.task.metrics().swap_remove(0);
    let loss = MetricPair { spec, reference: Some(plain.loss), result: Some(other.loss) };
    Ok(Found {
        what: What::Gradients,
        samples: plan.train.batch,
        short: format!("training {}", workload.about().samples),
        parity: Parity::between(&plain.gradients, &other.gradients)?,
        ssim: None,
        metrics: vec![loss],
    })
}
