//! The steps of a quantization: capture, calibrate, test, time, and write.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use updraft_data::{Progress, ProgressUnit};
use updraft_quant::slices::Isa;
use updraft_quant::{Arithmetic, Evaluation, QuantizedModel};
use updraft_run::{
    CalibrationMethod, Int8Network, Int8Record, Quantizable, RunError, RunFolder, by_sample,
};

use super::batches::{Batches, STOPPED};
use super::bits::Bits;
use super::latency::latency;
use super::methods::Compared;
use super::settings::QuantizeSettings;
use super::table::{ModelKind, table};
use crate::progress::Display;
use crate::steps::Steps;
use crate::stop;
use crate::wrap::hanging;
use crate::{Failed, Stopped};

/// The largest difference between the outputs of two forms of a network, relative to the largest
/// output: both sum in f32, in different orders.
const SAME: f32 = 1e-3;

/// The same for a network that rounds its tensors itself, of the root mean squares of difference and
/// outputs: sums that fall next to the middle between two codes are rounded apart, the layers after
/// them see another code, and a network that has learnt little amplifies that. It detects large
/// errors only.
const SAME_IN_CODES: f32 = 0.5;

/// The batches that are timed.
const BATCHES: [usize; 2] = [1, 32];

/// The files that a quantization writes to the run folder.
const FILES: [&str; 3] = [Int8Network::FILE, ONNX, Int8Network::REPORT];

const ONNX: &str = "model.onnx";

/// A network to quantize, and its origin.
pub(crate) struct Quantizing<'a> {
    pub(crate) folder: &'a RunFolder,
    /// Identifies the model.
    pub(crate) record: Int8Record,
    /// In f32, independent of the run's precision.
    pub(crate) model: Box<dyn Quantizable>,
    /// As the user named it.
    pub(crate) device_name: &'a str,
}

/// The names of the steps of [`Quantizing::run`].
pub(crate) fn steps(settings: &QuantizeSettings) -> Vec<&'static str> {
    let mut steps = Vec::new();
    steps.extend(settings.outliers.map(|_| "plant outliers"));
    steps.push("capture");
    steps.extend(settings.equalize.then_some("equalize"));
    steps.extend(settings.measures_layers().then_some("measure each layer"));
    steps.extend(settings.chooses_bits().then_some("choose bits"));
    steps.push("calibrate");
    steps.extend(settings.plan.then_some("time each layer"));
    steps.push("test in f32 and int8");
    steps.extend(settings.every_method.then_some("test the other methods"));
    steps.push("time both");
    steps
}

impl Quantizing<'_> {
    /// Quantizes, writes [`FILES`] into the run folder, and returns the table to print.
    ///
    /// All files are replaced or none, after all steps are finished.
    pub(crate) fn run(
        self,
        settings: &QuantizeSettings,
        steps: &mut Steps,
        display: &mut Display,
    ) -> Result<String> {
        let Self { folder, record, model: mut network, device_name } = self;
        let inputs = network.first_inputs().context("the test data")?;
        ensure!(!inputs.is_empty(), "the test set has no sample");
        let each: usize = network.input_shape().iter().product();
        if let Some(factor) = settings.outliers {
            steps.take("plant outliers", |label| {
                display.line(label);
                let right = network.outputs(&inputs);
                network.plant_outliers(factor)?;
                ensure_same([&right, &network.outputs(&inputs)], SAME, "with outliers")
            })?;
        }
        let network = &*network;
        let graph = steps.take("capture", |label| {
            display.line(label);
            let right = network.outputs(&inputs);
            if right.iter().any(|output| !output.is_finite()) {
                let (run, what) = (folder.path().to_owned(), "an output".to_owned());
                return Err(RunError::NotFinite { run, what }.into());
            }
            let graph = network.capture()?;
            let both = [&right, &by_sample(graph.forward(&inputs), inputs.len() / each)];
            let both = both.map(|outputs| &outputs[..]);
            match graph.has_schemes() {
                true => ensure_same_in_codes(both)?,
                false => ensure_same(both, SAME, "as captured")?,
            }
            Ok(graph)
        })?;
        let chosen = network.calibration(folder, settings.calibration as usize)?;
        let set_hash = chosen.fingerprint();
        let graph = if settings.equalize {
            steps.take("equalize", |label| {
                let mut batches = Batches::new(chosen.batches()?, each, display, label);
                let equalized = graph.equalized(batches.by_ref());
                batches.end()?;
                let equalized = equalized?;
                // With limits such as ReLU6's only the samples of the calibration stay the same.
                let seen = chosen.batches()?.0.next().transpose();
                let seen = seen.map_err(anyhow::Error::from_boxed)?.unwrap_or_default();
                let seen = &seen[..seen.len().min(inputs.len())];
                let captured = by_sample(equalized.forward(seen), seen.len() / each);
                let both = [&network.outputs(seen), &captured];
                ensure_same(both.map(|outputs| &outputs[..]), SAME, "as equalized")?;
                anyhow::Ok(equalized)
            })?
        } else {
            graph
        };
        let isa = Isa::detect().dot();
        let bits = Bits { settings, graph: &graph, samples: &*chosen, each, isa };
        let chosen_bits = bits.choose(steps, display)?;
        let quantized = |method: CalibrationMethod, label: &str, display: &mut Display| {
            let mut by = settings.quantization(method, &set_hash);
            if let Some(assignment) = &chosen_bits.assignment {
                by = assignment.apply(by);
            }
            let mut batches = Batches::new(chosen.batches()?, each, display, label);
            let model = QuantizedModel::try_quantize(&graph, batches.by_ref(), by);
            batches.end()?;
            let model = model?;
            check_no_zero_output(&model)?;
            anyhow::Ok(if settings.only_int8 { model.only_int8() } else { model })
        };
        let tested = |model: &QuantizedModel, label: &str, display: &mut Display| -> Result<_> {
            let served = model.for_processor(isa);
            let evaluation = network.evaluate(&graph, &served, isa, &mut |done, total| {
                let progress = Progress { done, total, unit: ProgressUnit::Samples };
                display.preparing(label, progress);
                !stop::requested()
            });
            display.clear();
            evaluation?.ok_or_else(|| Stopped(STOPPED.to_owned()).into())
        };
        let mut model =
            steps.take("calibrate", |label| quantized(settings.method, label, display))?;
        let mut speed = None;
        if settings.plan {
            speed = Some(steps.take("time each layer", |label| {
                display.line(label);
                anyhow::Ok(model.measure_speed(isa, &BATCHES))
            })?);
        }
        if let Some(table) = &speed {
            model = model.with_speed_plan(table.plan());
        }
        let evaluation =
            steps.take("test in f32 and int8", |label| tested(&model, label, display))?;
        let mut methods = Vec::new();
        if settings.every_method {
            methods = steps.take("test the other methods", |label| {
                let compared = |method: CalibrationMethod| {
                    if method == settings.method {
                        return Ok(Compared::from(&evaluation));
                    }
                    let label = format!("{label}, {}", method.name());
                    let model = quantized(method, &format!("{label}: calibrate"), display)?;
                    Ok(Compared::from(&tested(&model, &label, display)?))
                };
                CalibrationMethod::ALL.into_iter().map(compared).collect::<Result<Vec<_>>>()
            })?;
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let latencies = steps.take("time both", |label| {
            display.line(label);
            let quantized = (&model.for_processor(isa), isa, threads);
            Ok(BATCHES.map(|batch| latency(network, quantized, batch, &inputs)))
        })?;
        let file = model.to_bytes();
        let mut report = json!({
            "evaluation": evaluation,
            "methods": methods,
            "outliers": settings.outliers,
            "bits": chosen_bits,
            "rounded_layers": model.rounded_layers(),
            "equalized": settings.equalize,
            "weights_only": settings.weights_only,
            "latency": latencies,
            "speed": speed,
            "threads": threads,
            "isa": isa.to_string(),
            "device": device_name,
        });
        let record = serde_json::to_value(record.with_network(&file))?;
        if let (Some(fields), Value::Object(record)) = (report.as_object_mut(), record) {
            fields.extend(record);
        }
        let onnx = model.to_onnx();
        let missing =
            onnx.as_ref().err().map_or(String::new(), |error| format!("no {ONNX}: {error}\n"));
        let contents = [Some(file), onnx.ok(), Some(serde_json::to_vec_pretty(&report)?)];
        let choice = chosen.file();
        let choice = choice.iter().map(|(name, content)| (*name, Some(&content[..])));
        let results = FILES.into_iter().zip(contents.iter().map(Option::as_deref));
        folder.replace(&choice.chain(results).collect::<Vec<_>>())?;
        let kind = match () {
            () if graph.has_schemes() => ModelKind::Learned,
            () if settings.weights_only => ModelKind::WeightsOnly,
            () => ModelKind::Int8,
        };
        let rounded = model.rounded_layers();
        let times = speed.map_or(String::new(), |table| table.to_string());
        Ok(missing
            + &chosen_bits.lines()
            + &missed_drop(settings, &evaluation)
            + &times
            + &table(&evaluation, kind, &latencies, &methods, rounded))
    }
}

/// Returns an error if the output of a layer was zero for all calibration samples: int8 has no codes
/// for what calibration did not see.
fn check_no_zero_output(model: &QuantizedModel) -> Result<()> {
    let layers = model.plan().layers;
    let zero = layers.iter().filter(|layer| layer.is_zero && layer.arithmetic == Arithmetic::Int8);
    let names: Vec<&str> = zero.map(|layer| layer.name.as_str()).collect();
    let Some((first, others)) = names.split_first() else { return Ok(()) };
    let samples = model.calibrated().samples;
    let (and_others, them) = match others.len() {
        0 => (String::new(), "it"),
        count => (format!(" (and those of {count} more layers)"), "them"),
    };
    bail!(
        "the output of `{first}`{and_others} is zero for all {samples} calibration samples, and \
         int8 has no codes for what calibration did not see: calibrate with more samples \
         (--calibration), or keep {them} in f32 (--keep {first})"
    )
}

/// A line for a score that falls by more than `--max-drop` on the test data; else empty.
fn missed_drop(settings: &QuantizeSettings, evaluation: &Evaluation) -> String {
    let fall = evaluation.score_f32 - evaluation.score_int8;
    let points = 100.0 * if evaluation.is_higher_better { fall } else { -fall };
    match settings.max_drop {
        Some(drop) if points > drop => {
            hanging(
                "",
                &format!(
                    "the test score falls by {points:.2} points, more than --max-drop {drop}: bits were \
                 chosen by the score on calibration samples; choose them on more with --calibration"
                ),
            ) + "\n"
        }
        _ => String::new(),
    }
}

/// Whether a captured network that rounds its tensors gives nearly the same outputs.
fn ensure_same_in_codes([right, given]: [&[f32]; 2]) -> Result<()> {
    let mean_square = |values: &mut dyn Iterator<Item = f32>| -> f32 {
        values.map(|value| value * value).sum::<f32>() / right.len() as f32
    };
    let off = mean_square(&mut right.iter().zip(given).map(|(a, b)| a - b)).sqrt();
    let size = mean_square(&mut right.iter().copied()).sqrt();
    if off <= SAME_IN_CODES * size {
        return Ok(());
    }
    bail!(Failed(format!(
        "the outputs of the network as captured differ from burn's by {off} in the root mean square, \
         and theirs is {size}; this is a bug in updraft, please report it"
    )))
}

/// Whether another form of a network gives the same outputs.
fn ensure_same([right, given]: [&[f32]; 2], limit: f32, form: &str) -> Result<()> {
    let greatest = right.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let off = right.iter().zip(given).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    if off <= limit * greatest {
        return Ok(());
    }
    bail!(Failed(format!(
        "the outputs of the network {form} differ from burn's by {off}, and the largest is \
         {greatest}; this is a bug in updraft, please report it"
    )))
}
