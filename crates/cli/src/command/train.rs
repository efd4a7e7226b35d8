//! `train`: one run, from a configuration to a run folder.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use updraft_device::Selection;
use updraft_distributed::{Alone, Collective, Shared};
use updraft_run::{
    Beginning, LayerTimes, Observer, Plan, Registry, RunError, RunFolder, Trained, Training,
    UnusedKey,
};
use updraft_trainer::{Control, Ending, Event, NonFinite};

use super::conclusion::conclude;
use super::launch::note_run;
use super::would::{Would, find_inputs, of_training};
use super::{
    Check, ConfigArgs, device_of, device_of_rank, files_to_predict, next_predict, open,
    open_in_silence,
};
use crate::batch_size::fitting_batch;
use crate::device::make_default;
use crate::json::JsonArgs;
use crate::log::LogFile;
use crate::program::quoted;
use crate::progress::Display;
use crate::ranks::{Connected, Quiet, open_on_ranks, refuse_on_ranks};
use crate::terminal::say;
use crate::wrap::{counted, hanging};
use crate::{Failed, current_run, layer_table, stop};

const PROFILE_OF_RESUMED: &str = "--profile is for a new run; a resumed one continues with the \
    settings in its plan.toml, where keys of performance may be edited";

const EXAMPLES: &str = "\
Examples:
  Train the quickstart on generated data, in seconds:
      PROGRAM train
  Train a configuration on your own data:
      PROGRAM train configs/images.toml --data DIR
  Override settings:
      PROGRAM train configs/quickstart.toml --set train.epochs=3 --set seed=7
  Print the plan without training:
      PROGRAM train configs/cifar10.toml --dry-run
  Continue a run that was stopped:
      PROGRAM train --resume runs/RUN
";

/// Trains a model and writes a run folder.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES.replace("PROGRAM", &crate::program::name()))]
pub(crate) struct TrainCommand {
    #[command(flatten)]
    pub(super) train: TrainArgs,
    /// Instead of training, print the algorithm of each convolution and the reason; KAN convolutions
    /// are not listed
    #[arg(long, conflicts_with = "resume")]
    explain_kernels: bool,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

/// The model to train.
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Continue a run that was stopped
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "device", "sets"])]
    pub(super) resume: Option<PathBuf>,
    /// With --resume, continue from the checkpoint of this step; later ones are renamed
    #[arg(long, value_name = "STEP", requires = "resume")]
    pub(super) checkpoint: Option<u64>,
    /// The folder in which run folders are created
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Trace the first N steps: trace.json for Chrome and Perfetto, and the slowest layers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) trace_steps: Option<u64>,
}

impl TrainCommand {
    /// The plan of the configuration, or of the resumed run.
    pub(crate) fn plan(&self, registry: Registry) -> Result<Plan> {
        self.train.plan(registry)
    }

    /// The folder of the run to continue.
    pub(crate) fn resumed_run(&self) -> Option<&Path> {
        self.train.resume.as_deref()
    }
}

impl TrainArgs {
    /// What it would read and write.
    pub(super) fn would(&self, plan: &Plan) -> Would {
        of_training(plan, &self.config, self.resume.as_deref(), &self.runs)
    }

    /// A run of a plan that is made elsewhere.
    pub(crate) fn in_folder(runs: PathBuf) -> Self {
        let config = ConfigArgs::default();
        Self { config, resume: None, checkpoint: None, runs, trace_steps: None }
    }

    /// The plan of the configuration, or of the resumed run.
    pub(crate) fn plan(&self, registry: Registry) -> Result<Plan> {
        if let Some(path) = &self.resume {
            ensure!(self.config.profile.is_none(), PROFILE_OF_RESUMED);
            return Ok(RunFolder::open(path)?.plan(registry)?);
        }
        Ok(self.config.plan(registry)?.plan)
    }

    /// The same, with the checks that need no data.
    pub(crate) fn checked_plan(&self, registry: Registry, check: Check<'_>) -> Result<Plan> {
        let plan = self.plan(registry)?;
        check(&plan)?;
        if let Some(run) = self.resumed()? {
            run.refuse_other_model(&plan)?;
            run.newest_checkpoint()?;
        } else {
            RunFolder::check_place(&self.runs)?;
        }
        device_of(&plan)?;
        Ok(plan)
    }

    /// The run to continue.
    pub(super) fn resumed(&self) -> Result<Option<RunFolder>, RunError> {
        let Some(path) = &self.resume else { return Ok(None) };
        RunFolder::open(path)?.with_checkpoint(self.checkpoint).map(Some)
    }
}

/// Prints the plan.
pub(crate) fn dry_run(registry: Registry, args: &TrainCommand) -> Result<()> {
    dry_run_for(registry, &args.train, |_| Vec::new(), &|_| Ok(()))
}

/// Prints what would be done, and a plan that passes a check after the lines before it.
pub(crate) fn dry_run_for(
    registry: Registry,
    args: &TrainArgs,
    before: impl FnOnce(&Plan) -> Vec<String>,
    check: Check<'_>,
) -> Result<()> {
    let plan = args.checked_plan(registry, check)?;
    args.would(&plan).print_before_a_plan()?;
    before(&plan).iter().try_for_each(|line| crate::print(line))?;
    crate::print(plan.to_toml().trim_end())?;
    Ok(find_inputs(&plan, &args.config, args.resume.as_deref())?)
}

/// Trains a new run, or continues a stopped one.
pub(crate) fn run(registry: Registry, args: &TrainCommand, log: &LogFile) -> Result<()> {
    let TrainCommand { train: args, explain_kernels: explains, json } = args;
    let plan = args.plan(registry)?;
    if *explains {
        return explain_kernels(&plan, args);
    }
    let files = files_to_predict(&plan);
    let ignores = plan.train.non_finite == NonFinite::Ignore;
    let ranks = Connected::start(&plan.train.distributed, |local_rank| {
        restart_to_resume(args, &plan, local_rank)
    })?;
    let is_first = ranks.collective().rank() == 0;
    let watch = &mut |_: &Event| Control::Continue;
    let mut display = Display::new();
    let place = (ranks.collective(), ranks.local_rank());
    let trained = train_on_ranks(args, plan, log, &mut display, place, watch);
    let trained = ranks.finish(trained)?;
    if !is_first {
        return Ok(());
    }
    let path = trained.folder.path();
    if trained.ending == Ending::Stopped {
        say(&how_to_resume("train", path));
        return Ok(());
    }
    let finite = if ignores { Ok(()) } else { refuse_diverged(&trained) };
    if finite.is_ok() {
        next_predict(path, files, "");
    }
    json.print(&json!({ "run": path.to_string_lossy(), "test": trained.test }))?;
    finite
}

/// Returns an error for a run whose test loss is not finite.
pub(super) fn refuse_diverged(trained: &Trained) -> Result<()> {
    let loss = trained.test.as_ref().and_then(|test| test.value("loss"));
    match loss.filter(|loss| !loss.is_finite()) {
        None => Ok(()),
        Some(loss) => Err(Failed(format!(
            "the test loss is {loss}: the training of `{}` may have diverged; lower \
             `train.learning_rate`, or look at the test data",
            trained.folder.path().display()
        ))
        .into()),
    }
}

/// Prints the algorithms of the model's convolutions to standard output.
fn explain_kernels(plan: &Plan, args: &TrainArgs) -> Result<()> {
    let (device, selection) = device_of(plan)?;
    let workload = open(plan, args.config.data.as_deref(), None, &mut Display::new())?;
    let choices = workload.kernels(plan, &device);
    if choices.is_empty() {
        let device = selection.id;
        crate::print(&format!("no convolution is computed by Updraft's kernels on {device}"))?;
    }
    crate::kernels::table(&choices).iter().try_for_each(|line| crate::print(line))
}

/// The command that continues a stopped run.
pub(super) fn how_to_resume(command: &str, run: &Path) -> String {
    let (program, run) = (crate::program::name(), quoted(&run.to_string_lossy()));
    format!("stopped and saved; continue with: {program} {command} --resume {run}")
}

/// The same, for callers that use the trained model.
pub(crate) fn train(
    args: &TrainArgs,
    plan: Plan,
    log: &LogFile,
    display: &mut Display,
) -> Result<Trained> {
    train_watched(args, plan, log, display, &mut |_| Control::Continue)
}

/// The same, for a caller that may stop the run at each event.
pub(crate) fn train_watched(
    args: &TrainArgs,
    plan: Plan,
    log: &LogFile,
    display: &mut Display,
    watch: &mut dyn FnMut(&Event) -> Control,
) -> Result<Trained> {
    restart_to_resume(args, &plan, None)?;
    train_on_ranks(args, plan, log, display, (Shared::new(Alone), None), watch)
}

/// Restarts the program if it resumes a run whose device is not burn's default.
fn restart_to_resume(args: &TrainArgs, plan: &Plan, local_rank: Option<usize>) -> Result<()> {
    let Some(run) = args.resumed()? else { return Ok(()) };
    run.refuse_other_model(plan)?;
    run.newest_checkpoint()?;
    make_default(&device_of_rank(plan, local_rank)?.1)
}

/// The same together with other ranks, of which the first prints; with the number of this rank on
/// its machine.
fn train_on_ranks(
    args: &TrainArgs,
    mut plan: Plan,
    log: &LogFile,
    display: &mut Display,
    (mut ranks, local_rank): (Shared, Option<usize>),
    watch: &mut dyn FnMut(&Event) -> Control,
) -> Result<Trained> {
    let is_first = ranks.rank() == 0;
    refuse_on_ranks(&plan, ranks.size(), args.resume.is_some())?;
    let began = (Instant::now(), updraft_device::cpu_seconds());
    let opened = open_on_ranks(&mut ranks, plan.task.writes_caches(), || {
        let resumed = args.resumed()?;
        let (device, selection) = device_of_rank(&plan, local_rank)?;
        // Errors that prevent the run are reported before the data is opened.
        match &resumed {
            Some(run) => {
                run.refuse_other_model(&plan)?;
                run.newest_checkpoint()?;
                if is_first {
                    drop(run.lock()?);
                }
            }
            None if is_first => RunFolder::try_place(&args.runs, &plan)?,
            None => {}
        }
        let (dir, run) = (args.config.data.as_deref(), resumed.as_ref());
        let workload = match is_first {
            true => open(&plan, dir, run, display)?,
            false => open_in_silence(&plan, dir, run)?,
        };
        Ok((resumed, device, selection, workload))
    });
    let (resumed, device, selection, workload) = opened?;
    // A resumed run uses the batch size that its first part found.
    if plan.train.auto_batch.is_some() && resumed.is_none() {
        let batch = fitting_batch(&plan, &*workload, &selection, &args.runs, display)?;
        plan.set_batch(batch);
    }
    let training = Training {
        plan: &plan,
        device: &device,
        selection: &selection,
        runs: &args.runs,
        resumed,
        collective: ranks,
        trace_steps: args.trace_steps,
        began,
    };
    if !is_first {
        return Ok(workload.train(training, &mut Quiet)?);
    }
    let mut watcher = Watcher { display, log, plan: &plan, selection: &selection, watch };
    let trained = workload.train(training, &mut watcher);
    current_run::set(None);
    display.clear();
    let trained = trained?;
    conclude(display, &trained);
    if args.trace_steps.is_some() {
        layer_table::show(&trained.folder, LayerTimes::OF_TRAINING, "step", display)?;
    }
    Ok(trained)
}

/// Displays a run, and writes its log to its folder.
struct Watcher<'a> {
    display: &'a mut Display,
    log: &'a LogFile,
    plan: &'a Plan,
    selection: &'a Selection,
    watch: &'a mut dyn FnMut(&Event) -> Control,
}

impl Observer for Watcher<'_> {
    fn created(&mut self, folder: &RunFolder) {
        note_run(folder.path());
        current_run::set(Some(folder.path()));
    }

    /// Prints a description of the run, in lines of at most 80 columns if the paths allow.
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), RunError> {
        self.log.set(beginning.folder.log_file()?);
        note_run(beginning.folder.path());
        current_run::set(Some(beginning.folder.path()));
        let (plan, train) = (self.plan, &self.plan.train);
        let display = &mut *self.display;
        display.expect(train.epochs, beginning.short);
        let say = |name: &str, text: &str| display.line(&hanging(&format!("{name:9}"), text));
        for note in &beginning.notes {
            say("note", note);
        }
        for UnusedKey { key, reason } in plan.unused_on(self.selection.id.backend) {
            say("note", &format!("`{key}` changes nothing: {reason}"));
        }
        say("run", &beginning.folder.path().display().to_string());
        say("device", &format!("{}: {}", self.selection.id, self.selection.reason));
        say("data", &beginning.data);
        let (model, parameters) = (&beginning.model, beginning.parameters);
        say("model", &format!("{model}, {parameters} parameters, {}", plan.precision));
        let epochs = counted(train.epochs, "epoch");
        let (batch, rate, seed) = (train.batch, train.learning_rate, plan.seed);
        say("train", &format!("{epochs}, batches of {batch}, learning rate {rate}, seed {seed}"));
        if beginning.step > 0 {
            say("resumed", &format!("after step {}", beginning.step));
        }
        if let Some(peak) = &beginning.peak {
            say("peak", peak);
        }
        Ok(())
    }

    fn note(&mut self, text: &str) {
        self.display.line(&hanging("note     ", text));
    }

    fn event(&mut self, event: &Event) -> Control {
        match event {
            Event::ReadEach { reason } => {
                let text = format!("each update is read from the device: {reason}");
                self.display.line(&hanging("note     ", &text));
            }
            Event::Step(report) => self.display.step(report),
            Event::Epoch(report) => self.display.epoch(report),
            _ => {}
        }
        let control = (self.watch)(event);
        if stop::requested() { Control::Stop } else { control }
    }
}
