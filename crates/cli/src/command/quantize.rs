//! `quantize`: a trained model in eight bits, with what that costs and what it gains.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;
use updraft_data::{
    DataError, ImageBatch, ImageSource, Loader, LoaderConfig, Order, Progress, ProgressUnit,
    Subset, Workers,
};
use updraft_integration::DualPathwayNet;
use updraft_quant::slices::Path;
use updraft_quant::{Calibration, Evaluation, Graph, Quantization, QuantizedModel, Workspace};
use updraft_trainer::load_model;

use crate::device::choose;
use crate::progress::Display;
use crate::run_folder::RunFolder;
use crate::stop;
use crate::workload::{ImageData, normalization, open_data};

/// Images that are read together.
const BATCH: usize = 64;

/// Runs of each batch size that are timed, and those before them that are not.
const TIMED: usize = 40;
const WARM_UP: usize = 5;

/// The greatest difference between burn's answers and the captured network's, in units of the
/// greatest answer: both sum in f32, in another order.
const SAME: f32 = 1e-3;

/// Puts a trained model into eight bits and says what that costs.
#[derive(Debug, Args)]
pub(crate) struct QuantizeArgs {
    /// The run folder
    run: PathBuf,
    /// The folder that holds the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many training images the ranges are found on
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    calibration: u32,
    /// How ranges follow from what is seen
    #[arg(long, default_value = "minmax")]
    method: Method,
    /// A layer to keep in f32, by its name in quant.json (repeatable)
    #[arg(long = "keep", value_name = "LAYER")]
    keep: Vec<String>,
    /// The device that burn's f32 runs on: auto, flex, cuda:0, ...
    #[arg(long, default_value = "auto")]
    device: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Method {
    /// From the least number to the greatest
    Minmax,
    /// 99.99 % of all numbers
    Percentile,
    /// The least loss of information
    Entropy,
    /// The least squared error
    Mse,
}

impl From<Method> for Calibration {
    fn from(method: Method) -> Self {
        match method {
            Method::Minmax => Self::MinMax,
            Method::Percentile => Self::Percentile(0.9999),
            Method::Entropy => Self::Entropy,
            Method::Mse => Self::MeanSquaredError,
        }
    }
}

/// How long a batch takes, in both.
#[derive(Debug, Clone, Serialize)]
struct Latency {
    batch: usize,
    f32_ms: Quantiles,
    int8_ms: Quantiles,
}

#[derive(Debug, Clone, Serialize)]
struct Quantiles {
    p50: f64,
    p95: f64,
}

/// Writes `model.int8`, `model.onnx` and `quant.json` into the run folder and prints a table.
pub(crate) fn run(args: &QuantizeArgs) -> Result<()> {
    let folder = RunFolder::open(&args.run)?;
    let plan = folder.plan()?;
    let classes = folder.classes()?;
    let spec = args.device.parse().with_context(|| format!("device `{}`", args.device))?;
    let (device, _) = choose(&spec)?;
    let mut display = Display::new(1);

    // The parameters as they are stored, in f32, whatever precision the run computed in.
    let network = plan.network(classes.len());
    network.validate()?;
    let network = load_model(&folder.served_checkpoint(&plan)?, network.init(&device))?.valid();
    let image = [3, plan.data.height, plan.data.width];
    display.line("1/5 capturing the network");
    let graph = Graph::try_capture(&network, image, DualPathwayNet::forward)?;

    display.line("2/5 opening the data");
    let data = open_data(&plan, args.data.as_deref(), &mut |step, progress| {
        display.preparing(step, progress);
    })?;
    let chosen = calibration_images(&data, args.calibration as usize)?;
    let load = |source: Arc<dyn ImageSource>| {
        let config = LoaderConfig::new(BATCH.min(source.len().max(1)))
            .with_order(Order::Sequential)
            .with_workers(Workers::Auto)
            .with_normalize(normalization(&plan));
        Loader::try_new(source, config)
    };

    let by = Quantization::new(args.method.into())
        .keep(args.keep.iter().cloned())
        .set_hash(chosen.fingerprint());
    let calibration = load(chosen).context("the calibration images")?;
    let mut batches = Batches::new(&calibration, &mut display, "3/5 calibrating");
    let model = QuantizedModel::try_quantize(&graph, batches.by_ref().map(|(x, _)| x), by);
    batches.end()?;
    let model = model?;

    let test = load(data.test.clone()).context("the test data")?;
    let path = Path::detect();
    let mut batches = Batches::new(&test, &mut display, "4/5 testing in f32 and int8");
    let told = Evaluation::try_new(&graph, &model, batches.by_ref(), path);
    batches.end()?;
    let told = told?;
    let first = test.epoch(0).next().ok_or_else(|| anyhow!("the test set has no image"))??;
    check_captured(&network, &graph, first.planes(), &device)?;

    display.line("5/5 timing both");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let time =
        |batch| latency((&network, &device), (&model, path, threads), image, batch, first.planes());
    let latencies = [time(1), time(32)];

    let report = json!({
        "evaluation": told,
        "latency": latencies,
        "threads": threads,
        "path": path.to_string(),
        "device": args.device,
    });
    folder.write_whole("model.int8", &model.to_bytes())?;
    folder.write_whole("model.onnx", &model.to_onnx())?;
    folder.write_whole("quant.json", &serde_json::to_vec_pretty(&report)?)?;
    crate::print(&table(&told, &latencies));
    Ok(())
}

/// Training images at even distances, in their order, as they are: not augmented.
fn calibration_images(data: &ImageData, count: usize) -> Result<Arc<dyn ImageSource>> {
    let all = data.train.len();
    let count = count.min(all);
    let indices = (0..count).map(|index| index * all / count).collect();
    Ok(Arc::new(Subset::try_new(data.train.clone(), indices)?))
}

/// The batches of a loader's first epoch, while a bar tells how far they are.
struct Batches<'a> {
    epoch: Box<dyn Iterator<Item = Result<ImageBatch, DataError>> + 'a>,
    display: &'a mut Display,
    activity: &'static str,
    progress: Progress,
    failed: Option<anyhow::Error>,
}

impl<'a> Batches<'a> {
    fn new(loader: &'a Loader, display: &'a mut Display, activity: &'static str) -> Self {
        let total = loader.samples() as u64;
        let progress = Progress { done: 0, total, unit: ProgressUnit::Images };
        Self { epoch: Box::new(loader.epoch(0)), display, activity, progress, failed: None }
    }

    /// What ended them before their time.
    fn end(self) -> Result<()> {
        self.display.clear();
        self.failed.map_or(Ok(()), Err)
    }
}

impl Iterator for Batches<'_> {
    type Item = (Vec<f32>, Vec<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        if stop::requested() {
            self.failed = Some(anyhow!("stopped before all images were seen; nothing was written"));
            return None;
        }
        match self.epoch.next()? {
            Ok(batch) => {
                self.progress.done += batch.len() as u64;
                self.display.preparing(self.activity, self.progress);
                Some((batch.planes().to_vec(), batch.labels().to_vec()))
            }
            Err(error) => {
                self.failed = Some(error.into());
                None
            }
        }
    }
}

/// Whether the captured network gives burn's answers, on some images.
fn check_captured(
    network: &DualPathwayNet,
    graph: &Graph,
    images: &[f32],
    device: &Device,
) -> Result<()> {
    let [channels, height, width] = graph.shape(graph.input());
    let batch = images.len() / (channels * height * width);
    let x = TensorData::new(images.to_vec(), [batch, channels, height, width]);
    let right = network.forward(Tensor::<4>::from_data(x, device)).into_data();
    let right: Vec<f32> = right.iter::<f32>().collect();
    let given = graph.forward(images);
    let greatest = right.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let off = right.iter().zip(&given).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    ensure!(
        off <= SAME * greatest,
        "the captured network is off burn's by {off} where answers go to {greatest}; \
         this is a fault of updraft, please report it"
    );
    Ok(())
}

/// How long a batch takes in burn's f32 and in eight bits, one after the other.
fn latency(
    (network, device): (&DualPathwayNet, &Device),
    (model, path, threads): (&QuantizedModel, Path, usize),
    [channels, height, width]: [usize; 3],
    batch: usize,
    images: &[f32],
) -> Latency {
    let len = batch * channels * height * width;
    let x: Vec<f32> = images.iter().copied().cycle().take(len).collect();
    let [_, answer] = model.shapes();
    let mut y = vec![0.0; batch * answer.iter().product::<usize>()];
    let mut workspace = Workspace::new();
    let (mut of_f32, mut of_int8) = (Vec::new(), Vec::new());
    for run in 0..WARM_UP + TIMED {
        // From numbers of this process to numbers of this process, both.
        let started = Instant::now();
        let data = TensorData::new(x.clone(), [batch, channels, height, width]);
        let _ = network.forward(Tensor::<4>::from_data(data, device)).into_data();
        let took = started.elapsed().as_secs_f64() * 1e3;
        let started = Instant::now();
        model.run(path, &x, &mut y, &mut workspace, threads);
        if run >= WARM_UP {
            of_f32.push(took);
            of_int8.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    Latency { batch, f32_ms: quantiles(of_f32), int8_ms: quantiles(of_int8) }
}

fn quantiles(mut values: Vec<f64>) -> Quantiles {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    Quantiles { p50: at(0.5), p95: at(0.95) }
}

/// What a person reads at the end.
fn table(told: &Evaluation, latencies: &[Latency]) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let mib = |bytes: usize| format!("{:.3} MiB", bytes as f64 / f64::from(1 << 20));
    let mut lines = vec![
        format!("{:24}{:>14}{:>14}", "", "f32", "int8"),
        format!(
            "{:24}{:>14}{:>14}",
            "test accuracy",
            percent(told.accuracy_f32),
            percent(told.accuracy_int8)
        ),
        format!("{:24}{:>14}{:>14}", "bytes", mib(told.bytes_f32), mib(told.bytes_int8)),
    ];
    for Latency { batch, f32_ms, int8_ms } in latencies {
        for (name, f32_ms, int8_ms) in
            [("p50", f32_ms.p50, int8_ms.p50), ("p95", f32_ms.p95, int8_ms.p95)]
        {
            let name = format!("batch of {batch}, {name}");
            lines.push(format!("{name:24}{f32_ms:>11.3} ms{int8_ms:>11.3} ms"));
        }
    }
    let sqnr = told.sqnr_db.map_or("no noise".to_owned(), |decibels| format!("{decibels:.1} dB"));
    lines.push(format!(
        "{} of {} answers agree, signal to noise {sqnr}, {} of the work in int8",
        percent(told.agreement),
        told.images,
        percent(told.int8_share),
    ));
    lines.push(format!(
        "f32 alone is right {} times, int8 alone {} times: p = {:.3}",
        told.only_f32_right, told.only_int8_right, told.p_value
    ));
    if !told.zero_layers.is_empty() {
        let names = told.zero_layers.join(", ");
        lines.push(format!("layers that gave only zero for all calibration images: {names}"));
    }
    if !told.advised_f32.is_empty() {
        lines.push(format!("noisy layers, to keep in f32 first: {}", told.advised_f32.join(", ")));
    }
    for Latency { batch, .. } in latencies.iter().filter(|l| l.int8_ms.p50 > l.f32_ms.p50) {
        lines.push(format!("warning: int8 is slower than f32 at a batch of {batch} here"));
    }
    lines.join("\n")
}
