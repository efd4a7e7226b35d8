//! The steps of a quantization: capture, calibrate, test, time, and write.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use burn::tensor::{Device, Tensor, TensorData};
use clap::ValueEnum;
use serde_json::json;
use updraft_data::{ImageSource, Loader};
use updraft_quant::slices::Path;
use updraft_quant::{Evaluation, Graph, Quantization, QuantizedModel};

use super::batches::Batches;
use super::calibration::{CALIBRATION, CalibrationSet};
use super::latency::latency;
use super::methods::Compared;
use super::settings::{Method, QuantizeSettings};
use super::table::table;
use crate::classifier::Classifier;
use crate::config::Plan;
use crate::progress::Display;
use crate::run_folder::RunFolder;
use crate::steps::Steps;
use crate::workload::{ImageData, plain_loader};

/// Images that are read together.
const BATCH: usize = 64;

/// The greatest difference between the answers of two forms of one network, in units of the
/// greatest answer: both sum in f32, in another order.
const SAME: f32 = 1e-3;

/// The files that a quantization leaves in the run folder.
pub(crate) const FILES: [&str; 4] = [CALIBRATION, "model.int8", "model.onnx", "quant.json"];

/// A network that is to be put into eight bits, and where it came from.
pub(crate) struct Quantizing<'a> {
    pub(crate) folder: &'a RunFolder,
    pub(crate) plan: &'a Plan,
    /// In f32, whatever precision the run computed in.
    pub(crate) network: Classifier,
    pub(crate) device: &'a Device,
    /// As the user named it.
    pub(crate) device_name: &'a str,
    pub(crate) data: &'a ImageData,
}

/// The names of the steps that [`Quantizing::run`] takes.
pub(crate) fn steps(settings: &QuantizeSettings) -> Vec<&'static str> {
    let mut steps = Vec::new();
    steps.extend(settings.outliers.map(|_| "plant outliers"));
    steps.extend(["capture", "calibrate", "test in f32 and int8"]);
    steps.extend(settings.every_method.then_some("test the other methods"));
    steps.push("time both");
    steps
}

impl Quantizing<'_> {
    /// Quantizes, writes [`FILES`] into the run folder, and gives the table for a person.
    ///
    /// Each file is whole or not there, and none is written before all steps are over.
    pub(crate) fn run(
        self,
        settings: &QuantizeSettings,
        steps: &mut Steps,
        display: &mut Display,
    ) -> Result<String> {
        let Self { folder, plan, mut network, device, device_name, data } = self;
        let test = load(plan, data.test.clone()).context("the test data")?;
        let first = test.epoch(0).next().ok_or_else(|| anyhow!("the test set has no image"))??;
        let images = first.planes();
        let size = [3, plan.data.height, plan.data.width];
        if let Some(factor) = settings.outliers {
            network = steps.take("plant outliers", |label| {
                display.line(label);
                let planted = network.clone().with_outliers(factor)?;
                let right = answers(&network, images, size, device);
                ensure_same(&right, &answers(&planted, images, size, device), "with outliers")?;
                Ok(planted)
            })?;
        }
        let graph = steps.take("capture", |label| {
            display.line(label);
            let graph = Graph::try_capture(&network, size, Classifier::forward)?;
            let right = answers(&network, images, size, device);
            ensure_same(&right, &graph.forward(images), "as captured")?;
            Ok(graph)
        })?;
        let chosen = CalibrationSet::of(folder, plan, data, settings.calibration as usize)?;
        let set_hash = chosen.images.fingerprint();
        let calibration = load(plan, chosen.images.clone()).context("the calibration images")?;
        let quantized = |method: Method, label: &str, display: &mut Display| {
            let mut by = Quantization::new(method.into())
                .keep(settings.keep.iter().cloned())
                .set_hash(set_hash.clone());
            if !settings.all_int8 {
                by = by.float_tail();
            }
            if settings.separate_sums {
                by = by.separate_sums();
            }
            let mut batches = Batches::new(&calibration, display, label);
            let model = QuantizedModel::try_quantize(&graph, batches.by_ref().map(|(x, _)| x), by);
            batches.end()?;
            anyhow::Ok(model?)
        };
        let path = Path::detect();
        let tested = |model: &QuantizedModel, label: &str, display: &mut Display| {
            let mut batches = Batches::new(&test, display, label);
            let told = Evaluation::try_new(&graph, model, batches.by_ref(), path);
            batches.end()?;
            anyhow::Ok(told?)
        };
        let model = steps.take("calibrate", |label| quantized(settings.method, label, display))?;
        let told = steps.take("test in f32 and int8", |label| tested(&model, label, display))?;
        let mut methods = Vec::new();
        if settings.every_method {
            methods = steps.take("test the other methods", |label| {
                let compared = |&method: &Method| {
                    if method == settings.method {
                        return Ok(Compared::from(&told));
                    }
                    let label = format!("{label}, {}", method.name());
                    let model = quantized(method, &format!("{label}: calibrate"), display)?;
                    Ok(Compared::from(&tested(&model, &label, display)?))
                };
                Method::value_variants().iter().map(compared).collect::<Result<Vec<_>>>()
            })?;
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let latencies = steps.take("time both", |label| {
            display.line(label);
            let both = ((&network, device), (&model, path, threads));
            Ok([1, 32].map(|batch| latency(both.0, both.1, size, batch, images)))
        })?;
        let report = json!({
            "evaluation": told,
            "methods": methods,
            "outliers": settings.outliers,
            "latency": latencies,
            "threads": threads,
            "path": path.to_string(),
            "device": device_name,
        });
        let contents = [model.to_bytes(), model.to_onnx(), serde_json::to_vec_pretty(&report)?];
        chosen.write(folder)?;
        for (name, content) in FILES.iter().skip(1).zip(contents) {
            folder.write_whole(name, &content)?;
        }
        Ok(table(&told, &latencies, &methods))
    }
}

fn load(plan: &Plan, source: Arc<dyn ImageSource>) -> Result<Loader> {
    let batch = BATCH.min(source.len().max(1));
    plain_loader(plan, source, batch)
}

/// burn's answers.
fn answers(
    network: &Classifier,
    images: &[f32],
    [channels, height, width]: [usize; 3],
    device: &Device,
) -> Vec<f32> {
    let batch = images.len() / (channels * height * width);
    let x = TensorData::new(images.to_vec(), [batch, channels, height, width]);
    network.forward(Tensor::<4>::from_data(x, device)).into_data().iter::<f32>().collect()
}

/// Whether another form of a network gives its answers.
fn ensure_same(right: &[f32], given: &[f32], form: &str) -> Result<()> {
    let greatest = right.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let off = right.iter().zip(given).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    ensure!(
        off <= SAME * greatest,
        "the network {form} is off burn's by {off} where answers go to {greatest}; \
         this is a fault of updraft, please report it"
    );
    Ok(())
}
