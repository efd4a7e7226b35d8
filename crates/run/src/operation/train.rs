//! One run, from a plan to a run folder.

use std::path::Path;
use std::time::Instant;

use burn::tensor::Device;
use updraft_data::Part;
use updraft_device::{Applied, Selection, applied};
use updraft_distributed::{Collective, Shared};
use updraft_precision::PrecisionError;
use updraft_trainer::{
    Control, Ending, Evaluation, Event, Finished, MetricSpec, Run, RunData, Task, TrainError,
    checkpoint_step, evaluate, metric_specs,
};

use super::check_start::check_start;
use super::evaluate::refuse_non_finite;
use super::kernel_choices::KernelChoices;
use super::layer_times::{TraceFiles, Tracer};
use super::new_model::{new_model, trained_parameters};
use super::other_stream::refuse_other_stream;
use super::products::precision_notes;
use super::run_record::Record;
use super::shared_start::{agree_on_folder, agree_on_start, first_path, open_shared};
use super::summary::Summary;
use super::trainer_settings::trainer_settings;
use super::training_device::training_device;
use crate::config::Plan;
use crate::data_wait::DataWait;
use crate::environment::Environment;
use crate::error::RunError;
use crate::file_contents::FileContents;
use crate::folder::RunFolder;
use crate::gpu_load::GpuLoad;
use crate::lost_checkpoint::SUMMARY;
use crate::peak_memory::PeakMemory;
use crate::record::{Metrics, RecordedMetrics, RunSchema, read_metrics};
use crate::task::{StreamUse, Workload, write_pictures};
use crate::utilization::Utilization;

/// The arguments of a run in addition to its workload.
pub struct Training<'a> {
    /// The plan that the workload was opened with.
    pub plan: &'a Plan,
    /// The device, opened, without autodiff.
    pub device: &'a Device,
    /// How the device was chosen, for the run's record.
    pub selection: &'a Selection,
    /// The folder in which run folders are created.
    pub runs: &'a Path,
    /// The stopped run to continue; `None` for a new one.
    pub resumed: Option<RunFolder>,
    /// The ranks that train this run together; each has its own `Training`, and the others wait
    /// for rank 0 to write the folder, which all of them read.
    pub collective: Shared,
    /// How many of the first steps are traced: `trace.json` for Chrome and Perfetto, and
    /// [`LayerTimes::OF_TRAINING`](crate::LayerTimes::OF_TRAINING) with the time of each layer.
    pub trace_steps: Option<u64>,
    /// The start of the work, and the processor seconds used until then, if known: [`Trained`]
    /// counts from there.
    pub began: (Instant, Option<f64>),
}

/// A description of a run that is about to start.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// Its folder.
    pub folder: &'a RunFolder,
    /// The data, in a line.
    pub data: String,
    /// The model's kind and shape.
    pub model: String,
    /// Parameters of the model.
    pub parameters: usize,
    /// Updates before this start; 0 for a new run.
    pub step: u64,
    /// The unit of samples in a rate.
    pub short: &'static str,
    /// The loss, its parts and the task's metrics.
    pub metrics: &'a [MetricSpec],
    /// The measured speed of the device, as text, if it was measured.
    pub peak: Option<String>,
    /// Messages about caches and other files, and about edits of the plan of a resumed run.
    pub notes: Vec<String>,
}

/// Receives what happens in a run, to print it and to stop the run.
///
/// # Example
/// ```
/// use updraft_run::{Beginning, Observer, RunError};
/// use updraft_trainer::{Control, Event};
///
/// /// Counts updates and never stops the run.
/// struct Count(u64);
///
/// impl Observer for Count {
///     fn begin(&mut self, _: &Beginning<'_>) -> Result<(), RunError> {
///         Ok(())
///     }
///
///     fn event(&mut self, event: &Event) -> Control {
///         self.0 += u64::from(matches!(event, Event::Step(_)));
///         Control::Continue
///     }
/// }
/// ```
pub trait Observer {
    /// Called for a new run as soon as its folder is created; of several ranks, for rank 0.
    fn created(&mut self, _folder: &RunFolder) {}

    /// Called once, after the folder is created and before the first step; of several ranks, for
    /// rank 0.
    ///
    /// # Errors
    /// Any [`RunError`], which ends the run.
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), RunError>;

    /// Called for what goes wrong and does not end the run.
    fn note(&mut self, _text: &str) {}

    /// Called for each event of training; [`Control::Stop`] ends the run after a checkpoint.
    fn event(&mut self, event: &Event) -> Control;
}

/// A finished or stopped run.
#[derive(Debug)]
pub struct Trained {
    /// The run's folder.
    pub folder: RunFolder,
    /// Why the run is over.
    pub ending: Ending,
    /// The score of the served model on the test data; `None` for a run that was stopped.
    pub test: Option<Evaluation>,
    /// Wall time of this process in seconds since [`Training::began`].
    pub wall_s: f64,
    /// Processor seconds since then, if the system reports them.
    pub cpu_s: Option<f64>,
    /// Whether the served model is that of an earlier epoch than the last, by `train.early_stop`.
    pub is_earlier: bool,
}

pub(super) fn train<W: Workload>(
    workload: &W,
    training: Training<'_>,
    observer: &mut dyn Observer,
) -> Result<Trained, RunError> {
    let Training { plan, device: plain, selection, runs, resumed, mut collective, began, .. } =
        training;
    let trace_steps = training.trace_steps.filter(|steps| *steps > 0);
    let (rank, count) = (collective.rank(), collective.size());
    if let Some(setting) = plan.task.needs_single_rank().filter(|_| count > 1) {
        return Err(RunError::SingleRank(setting));
    }
    let (started, cpu_before) = began;
    let (is_first, task) = (rank == 0, workload.task());
    // Take the lock before reading the run, because another process may be writing it.
    let mut held = resumed.as_ref().filter(|_| is_first).map(RunFolder::lock).transpose()?;
    if let (Some(folder), true) = (&resumed, is_first) {
        folder.remove_remains()?;
    }
    let resumed_from = resumed.as_ref().map(RunFolder::path);
    let measured_on = (plain, selection.id.backend);
    // The machine's, also while the run has one of its own.
    let autotune_cache = applied(plain).autotune_cache;
    let (mut kernels, kernel_note) = KernelChoices::begin(measured_on, resumed_from, rank);
    let used_for = StreamUse::Training { part: Part { index: rank, count }, device: plain };
    let streams = workload.streams(plan, used_for)?;
    if streams.train.batches() == 0 {
        let (samples, batch) = (streams.train.samples(), streams.train.batch());
        return Err(TrainError::NoBatches { samples, batch }.into());
    }
    // The folder is created only now, so that earlier errors leave none.
    check_start(workload, plan, plain)?;
    agree_on_start(&mut collective, plan, workload, (plain, selection.id.backend))?;
    if let Some(folder) = &resumed {
        agree_on_folder(&mut collective, folder.path())?;
    }
    let device = training_device(plan, plain.clone());
    device.seed(plan.seed);
    let model = *new_model(workload, plan, &device, resumed.is_some())?;
    let policy = plan.precision;
    let named = |error: PrecisionError| TrainError::from(error.on(&selection.id.to_string()));
    policy.check_device(&device).map_err(named)?;
    policy.check_norms(&model, |norm| task.casts(norm)).map_err(TrainError::from)?;
    let parameters = trained_parameters(&model);
    let multiply_adds = workload.multiply_adds(&model);
    let curves = workload.curves(&model);
    let optimizer = plan.train.optimizer.init();
    let about = workload.about();
    let mut notes = about.notes;
    notes.extend(precision_notes(workload, plan, plain));
    notes.extend(kernel_note);
    let mut recorded = RecordedMetrics::default();
    if !is_first {
        // Rank 0 renames checkpoints before the others read the newest one.
        collective.barrier().map_err(TrainError::from)?;
    }
    let contents = FileContents::new(workload.file_sets());
    let run = match &resumed {
        Some(folder) => {
            folder.refuse_other_model(plan)?;
            workload.check(folder)?;
            notes.extend(contents.expect(folder)?);
            notes.extend(folder.edits(plan)?.iter().map(|edited| format!("edited: {edited}")));
            let run = Run::resume(&folder.newest_checkpoint()?, model, optimizer);
            let run = run.map_err(|error| match error {
                TrainError::Checkpoint { cause } => folder.advised(cause),
                other => other.into(),
            })?;
            refuse_other_stream(&*streams.train, &run, folder.path())?;
            recorded = read_metrics(folder)?;
            notes.extend(recorded.damage());
            let aside = if is_first { folder.set_aside()? } else { 0 };
            if aside > 0 {
                notes.push(format!("later checkpoints renamed to `set-aside-step-…`: {aside}"));
            }
            run
        }
        None => Run::new(model, optimizer),
    };
    if is_first {
        collective.barrier().map_err(TrainError::from)?;
    }
    let metrics = metric_specs(task);
    let schema = RunSchema::new(
        plan.kind().name(),
        about.samples,
        metrics.clone(),
        plan.train.criterion.clone(),
        curves,
    );
    let folder = match resumed {
        Some(folder) => folder,
        None => {
            let created = is_first.then(|| RunFolder::create(runs, plan)).transpose()?;
            // Before the ranks meet again, where a lost one ends this one.
            created.iter().for_each(|folder| observer.created(folder));
            let path = created.as_ref().map_or(Path::new(""), RunFolder::path);
            let path = first_path(&mut collective, path)?;
            if let Some(folder) = &created {
                held = Some(folder.lock()?);
                workload.write(folder)?;
            }
            open_shared(&mut collective, created, &path)?
        }
    };
    if is_first {
        schema.write(&folder)?;
        let applied = Applied { autotune_cache, ..applied(&device) };
        folder.write_json("environment.json", &Environment::new(selection, &applied))?;
    }

    // What a narrow dtype is expected to gain is reported before the run, for any log settings.
    let is_narrow = policy.compute != policy.param;
    let measured = (is_first && (plan.log.utilization || is_narrow)).then(|| {
        Utilization::measure((plain, selection.id.backend), policy, multiply_adds.unwrap_or(0))
    });
    if is_first {
        observer.begin(&Beginning {
            folder: &folder,
            data: about.data,
            model: about.model,
            parameters,
            step: run.step(),
            short: about.short,
            metrics: &metrics,
            peak: measured.as_ref().map(Utilization::line),
            notes,
        })?;
    }
    let peak = measured.as_ref().and_then(|it| Some(it.as_ref().ok()?.peak_gflop_per_s()));
    let utilization = if plan.log.utilization { measured.transpose()? } else { None };
    let settings = trainer_settings(plan, folder.path(), selection.id.backend, trace_steps);
    let mut record = match is_first {
        true => Some(Record {
            folder: folder.clone(),
            contents,
            metrics: Metrics::open(&folder, &plan.log, &schema, (run.step(), recorded))?,
            lock: held,
            held: PeakMemory::start(plain)?,
            utilization,
            gpu: GpuLoad::of(selection, settings.read_every),
            tracer: trace_steps
                .map(|steps| {
                    Tracer::start(&folder, TraceFiles::TRAINING, (policy, plain), (steps, peak))
                })
                .transpose()?,
            waits: DataWait::default(),
        }),
        false => None,
    };
    let (mut failure, mut first_batch_s, begun_at) = (None, None, run.step());
    let before_training = started.elapsed().as_secs_f64();
    let mut watch = |event: &Event, model: &W::Model| {
        if let Event::Step(report) = event {
            first_batch_s.get_or_insert_with(|| {
                before_training + (report.at_us + report.times.data_wait_us) as f64 * 1e-6
            });
        }
        if matches!(event, Event::Saved { .. }) {
            kernels.store(folder.path()).iter().for_each(|text| observer.note(text));
        }
        let control = observer.event(event);
        if let Some(record) = &mut record
            && let Err(error) = record.add(event, model, || workload.epoch_fields(model))
        {
            failure = Some(error);
        }
        match failure {
            None => control,
            Some(RunError::LostLock(_)) => Control::Abort,
            Some(_) => Control::Stop,
        }
    };
    let finished = run.train_on_ranks(
        task,
        &settings,
        RunData { train: &*streams.train, test: Some(&*streams.test) },
        &device,
        &mut plan.train.distributed.ranks(collective),
        &mut watch,
    );
    let finished = match (finished, failure) {
        (Ok(finished), None) => finished,
        (Ok(_) | Err(TrainError::Aborted { .. }), Some(error)) => return Err(error),
        (Err(error @ TrainError::NotSynchronized { .. }), _) => {
            let reason = format!("{error}: set `train.distributed.batch_norm` to `local`");
            return Err(RunError::Unusable { reason });
        }
        (Err(error), _) => return Err(error.into()),
    };
    let Finished { served, steps, mut test, ending, checkpoint, .. } = finished;
    if steps == begun_at && ending != Ending::Stopped {
        // The run was finished before: the weights were not checked.
        refuse_non_finite(&served, &folder)?;
    }
    let cpu_s = || cpu_before.zip(updraft_device::cpu_seconds()).map(|(from, to)| to - from);
    let is_earlier = checkpoint_step(&checkpoint).is_some_and(|step| step < steps);
    let Some(mut record) = record else {
        kernels.finish(folder.path()).iter().for_each(|text| observer.note(text));
        let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), cpu_s());
        return Ok(Trained { folder, ending, test, wall_s, cpu_s, is_earlier });
    };
    let gpu = record.finish()?;
    gpu.iter().filter_map(|gpu| gpu.warning.as_ref()).for_each(|text| observer.note(text));
    if ending != Ending::Stopped {
        if let Some(decided) = workload.decide(plan, &served, plain, &folder)? {
            // All samples, where this rank trained on a part of every batch.
            let test_data = workload.streams(plan, StreamUse::Reading)?.test;
            let scored = evaluate(&decided, &served, &*test_data, plain, policy, &mut |_| {
                Control::Continue
            })?;
            test = scored.map(|scored| scored.evaluation);
        }
        let (pictures, contributions) =
            workload.pictures_and_contributions(plan, &served, plain)?;
        write_pictures(&folder, &pictures)?;
        contributions.map_or(Ok(()), |found| found.write(&folder, plan))?;
    }
    kernels.finish(folder.path()).iter().for_each(|text| observer.note(text));
    let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), cpu_s());
    let of_device = record.held.end()?;
    folder.write_json(
        SUMMARY,
        &Summary {
            name: &plan.name,
            task: plan.kind().name(),
            complete: ending != Ending::Stopped,
            steps,
            epochs: plan.train.epochs,
            parameters,
            train_samples: about.train_samples,
            test_samples: about.test_samples,
            test: &test,
            first_batch_s,
            earlier_steps: begun_at,
            wall_s,
            cpu_s,
            data_wait_share: record.waits.share(),
            peak_resident_bytes: updraft_device::memory().peak_resident_bytes,
            device_peak_in_use_bytes: of_device.in_use_bytes,
            device_peak_reserved_bytes: of_device.reserved_bytes,
            gpu: &gpu,
            checkpoint: checkpoint.strip_prefix(folder.path()).unwrap_or(&checkpoint).to_owned(),
        },
    )?;
    Ok(Trained { folder, ending, test, wall_s, cpu_s, is_earlier })
}
