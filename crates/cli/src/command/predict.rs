//! `predict`: predictions of a trained model.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use updraft_data::{Axis, Blend, Progress, ProgressUnit, WindowProgress};
use updraft_distributed::{Collective, Shared};
use updraft_run::{
    ComponentFiles, FilePrediction, Int8Network, LayerTimes, Plan, PredictionTrace, Registry,
    RunError, RunFolder, TrainedModel,
};
use updraft_trainer::Metric;

use super::predict_files::{check_parts, predict_divided};
use super::would::{Would, model_of};
use super::{Int8Args, OpenedRun, next_on, refused_as};
use crate::Failed;
use crate::layer_table;
use crate::predictions::{PartFailed, listed};
use crate::progress::{Display, metric_text};
use crate::stop::{self, NothingToSave};
use crate::terminal::name;

/// Predicts the samples of files with a trained model.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// The run folder
    run: PathBuf,
    /// The files with the samples, in the format of the run's data; a folder stands for its files
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Keep finished parts in this folder, and print at the end: the same command continues with the
    /// rest
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "trace_steps"])]
    pub(super) parts: Option<PathBuf>,
    /// Number of classes to print for each sample, the most probable first [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "out")]
    pub(super) top: Option<u16>,
    /// The device: auto, flex, cuda:0, ... (`probe` lists them)
    #[arg(long, default_value = "auto")]
    device: String,
    /// Use the checkpoint of this step instead of the served one
    #[arg(long, value_name = "STEP")]
    checkpoint: Option<u64>,
    #[command(flatten)]
    pub(super) int8: Int8Args,
    /// Trace the first N files or batches of windows: trace-predict.json in the run folder for Chrome
    /// and Perfetto, and the slowest layers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with = "int8")]
    trace_steps: Option<u64>,
    /// Print one JSON object per sample
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    image: ImageArgs,
}

/// The options of runs that predict a file into another one.
#[derive(Debug, Args)]
#[command(next_help_heading = "Runs that predict into a file")]
struct ImageArgs {
    /// The OME-TIFF to write; a prediction that was stopped is resumed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Sides of a window, such as 128,128 [default: those of the run's patches; 0: a whole axis]
    #[arg(long, value_name = "SIDES", value_delimiter = ',', requires = "out")]
    window: Option<Vec<usize>>,
    /// Overlap of windows as a fraction, for all axes or each, such as 0.5
    #[arg(long, value_delimiter = ',', default_value = "0.25", requires = "out")]
    overlap: Vec<f64>,
    /// Batch size of windows
    #[arg(long, default_value_t = 1, requires = "out")]
    batch: usize,
    /// Weights of overlapping windows
    #[arg(long, value_enum, default_value_t = BlendName::Gaussian, requires = "out")]
    blend: BlendName,
    /// Axes for test-time augmentation by mirroring
    #[arg(long, value_enum, value_delimiter = ',', requires = "out")]
    mirror: Vec<AxisName>,
    /// Write the output of every class of a mask instead of the class
    #[arg(long, requires = "out")]
    keep_channels: bool,
    /// Write the connected components of a mask to this OME-TIFF, and their sizes to a .csv file of
    /// the same name
    #[arg(long, value_name = "FILE", requires = "out")]
    components: Option<PathBuf>,
    /// Compare with this true image or mask, and print the metrics
    #[arg(long, value_name = "FILE", requires = "out")]
    truth: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BlendName {
    Constant,
    Gaussian,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AxisName {
    Depth,
    Height,
    Width,
}

impl ImageArgs {
    /// The prediction of a file into `out`.
    fn request(&self, input: &Path, out: &Path) -> FilePrediction {
        let mut request = FilePrediction::new(input, out);
        request.window.clone_from(&self.window);
        request.overlap.clone_from(&self.overlap);
        request.batch = self.batch;
        request.blend = match self.blend {
            BlendName::Constant => Blend::Constant,
            BlendName::Gaussian => request.blend,
        };
        let axis = |axis: &AxisName| match axis {
            AxisName::Depth => Axis::Depth,
            AxisName::Height => Axis::Height,
            AxisName::Width => Axis::Width,
        };
        request.mirror = self.mirror.iter().map(axis).collect();
        request.keeps_channels = self.keep_channels;
        request.components = self.components.clone().map(|labels| {
            let table = labels.with_extension("csv");
            ComponentFiles { labels, table }
        });
        request.truth.clone_from(&self.truth);
        request
    }
}

impl PredictArgs {
    /// Returns an error for options that several ranks do not support.
    pub(super) fn refuse_on_ranks(&self, ranks: usize) -> Result<()> {
        if ranks > 1 && self.trace_steps.is_some() {
            bail!("`--trace-steps` needs a single rank");
        }
        Ok(())
    }

    /// Whether the same command continues a prediction that was stopped.
    pub(super) const fn continues(&self) -> bool {
        self.parts.is_some() || self.image.out.is_some()
    }

    /// Opens a run whose task predicts what is asked for, and looks for the files.
    fn open(&self, registry: Registry) -> Result<OpenedRun> {
        let request = self.request()?;
        let check = |plan: &Plan| {
            let predictor = plan.predictor()?;
            if let Some(request) = &request {
                predictor.check_file(request)?;
            } else {
                predictor.check_samples()?;
            }
            if self.int8.int8 {
                let quantizer = plan.quantizer().map_err(refused_as("predict --int8"))?;
                request.as_ref().map_or(Ok(()), |request| quantizer.check_file_int8(request))?;
            }
            if self.top.is_some() && !predictor.predicts_classes() {
                let run = self.run.display();
                let reason =
                    format!("--top is for classes, and `{run}` predicts none; leave it out");
                return Err(RunError::Unusable { reason });
            }
            Ok(())
        };
        let at = (self.run.as_path(), self.checkpoint);
        let device = self.int8.device(&self.device);
        let run = OpenedRun::open_at(registry, at, device, &check)?;
        for file in self.files.iter().chain(&self.image.truth) {
            if !file.exists() {
                bail!(
                    "cannot read `{}`: there is no such file; name a file with samples like those \
                     that the run was trained on",
                    file.display()
                );
            }
            if file.is_dir() && request.is_some() {
                bail!("cannot read `{}`: it is a folder; name one of its files", file.display());
            }
        }
        Ok(run)
    }

    /// Loads the model that predicts.
    fn load(
        &self,
        registry: Registry,
        run: &OpenedRun,
        device: &str,
    ) -> Result<TrainedModel, RunError> {
        match self.int8.int8 {
            true => TrainedModel::load_int8_from(registry, &run.folder),
            false => TrainedModel::load_from(registry, &run.folder, device),
        }
    }

    fn trace(&self, model: &TrainedModel, folder: &RunFolder) -> Result<Option<PredictionTrace>> {
        Ok(self.trace_steps.map(|steps| model.trace(folder, steps)).transpose()?)
    }

    /// The prediction into a file, if there is one to write.
    fn request(&self) -> Result<Option<FilePrediction>> {
        let Some(out) = &self.image.out else { return Ok(None) };
        match &self.files[..] {
            [input] => Ok(Some(self.image.request(input, out))),
            files => {
                bail!("--out is one file, and {} files are to be predicted; name one", files.len())
            }
        }
    }
}

/// Prints what would be read and written.
pub(crate) fn dry_run(registry: Registry, args: &PredictArgs) -> Result<()> {
    let run = args.open(registry)?;
    if args.int8.int8 {
        Int8Network::open(&run.folder, &run.plan)?;
    }
    let model = match args.int8.int8 {
        true => format!("the int8 network in {}", run.folder.path().display()),
        false => model_of(&run.folder, &run.plan)?,
    };
    let files: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let reads = format!("{model} and {}", files.join(", "));
    match &args.image.out {
        Some(out) => Would::new(reads, out.display()).print(),
        None => {
            check_parts(args, &run, &listed(&args.files)?)?;
            let writes = match &args.parts {
                Some(parts) => format!("parts of the predictions in {}", parts.display()),
                None => "nothing; the predictions are printed".to_owned(),
            };
            Would::new(reads, writes).print()
        }
    }
}

/// Prints one line per sample and class, or per sample and number, to standard output.
pub(crate) fn run(registry: Registry, args: &PredictArgs) -> Result<()> {
    let mut run = args.open(registry)?;
    let ranks = run.connect(args.int8.device(&args.device))?;
    let is_first = ranks.collective().rank() == 0;
    let predicted = predict(registry, args, &run, &mut ranks.collective());
    // Rank 0 reports a part that failed, after it has printed those before it.
    let predicted = match predicted {
        Err(error) if !is_first && error.is::<PartFailed>() => Ok(()),
        predicted => predicted,
    };
    ranks.finish(predicted)?;
    if is_first {
        next_on("report", &args.run);
    }
    Ok(())
}

fn predict(
    registry: Registry,
    args: &PredictArgs,
    run: &OpenedRun,
    ranks: &mut Shared,
) -> Result<()> {
    args.refuse_on_ranks(ranks.size())?;
    if let Some(request) = args.request()? {
        return run_to_file(registry, args, (run, ranks), &request);
    }
    // There is nothing to save: a signal ends the process at once.
    let _unasked = NothingToSave::begin();
    let files = listed(&args.files)?;
    if ranks.size() > 1 || args.parts.is_some() {
        let device = device_of(args, run, ranks.size());
        return predict_divided(args, || args.load(registry, run, &device), (run, ranks), files);
    }
    let model = args.load(registry, run, &args.device)?;
    let mut trace = args.trace(&model, &run.folder)?;
    for file in &files {
        let mut printed = Ok(());
        model.predict_each(file, &mut |predicted| {
            printed = args.rendered(predicted).iter().try_for_each(|line| crate::print(line));
            match printed {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        printed?;
        trace.as_mut().map_or(Ok(()), PredictionTrace::add)?;
    }
    show_layers(trace, &run.folder, "file")
}

/// The device of a rank: among several, the one chosen by the number of the rank on its machine.
fn device_of(args: &PredictArgs, run: &OpenedRun, ranks: usize) -> String {
    match ranks {
        1 => args.device.clone(),
        _ => run.selection.id.to_string(),
    }
}

/// Predicts an image into a file and prints what was written.
fn run_to_file(
    registry: Registry,
    args: &PredictArgs,
    (run, ranks): (&OpenedRun, &mut Shared),
    request: &FilePrediction,
) -> Result<()> {
    // The image may be a pipe without a writer; from the first window on, signals are checked.
    let mut unasked = Some(NothingToSave::begin());
    let model = args.load(registry, run, &device_of(args, run, ranks.size()))?;
    let mut trace = args.trace(&model, &run.folder)?;
    let mut untraced = Ok(());
    let mut display = Display::new();
    let is_first = ranks.rank() == 0;
    let mut progress = |windows: WindowProgress| {
        unasked = None;
        if let (Some(trace), Ok(())) = (&mut trace, &untraced) {
            untraced = trace.add();
        }
        let WindowProgress { done, total, .. } = windows;
        if is_first {
            display.preparing("predicting", Progress { done, total, unit: ProgressUnit::Samples });
        }
        if stop::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let written = model.predict_image_on_ranks(request, ranks, &mut progress);
    let written = match written {
        Err(_) if stop::requested() => {
            bail!(Failed("stopped; the same command continues with the rest".to_owned()))
        }
        written => written?,
    };
    // Rank 0 has written, and prints.
    let Some(written) = written else { return Ok(()) };
    untraced?;
    show_layers(trace, &run.folder, "batch")?;
    if args.json {
        return crate::print_json(&json!(written));
    }
    let sides: Vec<String> = written.sides.iter().map(usize::to_string).collect();
    let count = |number: usize, one: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    };
    crate::print(&format!(
        "{}  {}, {}, {}",
        name(&request.output.display().to_string()),
        sides.join(" x "),
        count(written.channels, "channel"),
        count(written.frames, "frame")
    ))?;
    if let Some(components) = written.components {
        crate::print(&count(components, "component"))?;
    }
    for Metric { spec, value } in &written.metrics {
        crate::print(&format!("{:<22} {}", spec.name, metric_text(spec, *value)))?;
    }
    Ok(())
}

/// Completes a trace and prints the slowest layers.
fn show_layers(trace: Option<PredictionTrace>, folder: &RunFolder, step: &str) -> Result<()> {
    if let Some(mut trace) = trace {
        trace.finish()?;
        layer_table::show(folder, LayerTimes::OF_PREDICTION, step, &Display::new())?;
    }
    Ok(())
}
