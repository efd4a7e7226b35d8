//! The time of each layer in traced steps.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use updraft_precision::Policy;
use updraft_simd::{LayerPass, LayerSpan, LayerTimer};

use super::kernels::{LayerNames, layer_names};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::record::{Trace, TracedStep};
use crate::utilization::Utilization;

/// The files of a trace in a run folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceFiles {
    pub(super) trace: &'static str,
    pub(super) layers: &'static str,
}

impl TraceFiles {
    pub(super) const TRAINING: Self = Self { trace: "trace.json", layers: "layers.json" };
    pub(super) const EVALUATION: Self =
        Self { trace: "trace-eval.json", layers: "layers-eval.json" };
    pub(super) const PREDICTION: Self =
        Self { trace: "trace-predict.json", layers: "layers-predict.json" };
}

/// The times of the layers of a model in the steps of a trace.
///
/// Layers are those of Updraft's crates, and linear layers and embeddings of burn in the networks of
/// `updraft-models`; everything else is the rest of a step. They are timed on CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerTimes {
    /// The number of traced steps: of batches of an evaluation, of files or batches of windows that
    /// were predicted.
    pub steps: u64,
    /// Microseconds of the forward passes of all of them.
    pub forward_us: u64,
    /// Microseconds of the backward passes of all of them.
    pub backward_us: u64,
    /// The rate of matrix products on the device in the dtype of the computation, as measured, in
    /// 10⁹ floating-point operations a second; `None` if it could not be measured.
    pub peak_gflop_per_s: Option<f64>,
    /// The layers, the slowest first.
    pub layers: Vec<LayerTime>,
}

/// The time of a layer, summed over the steps of a trace.
///
/// An operation without parameters that no layer contains is a layer by the name of what it computes,
/// such as `max pooling`, with the times of all its calls; attention between the linear layers of a
/// module is one by the path of the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerTime {
    /// The path of the layer in the model.
    pub layer: String,
    /// What it computes, such as `convolution`.
    pub kind: String,
    /// How often it ran.
    pub calls: u64,
    /// How many of these runs burn's operations computed, wholly or in part, in place of kernels.
    pub plain_calls: u64,
    /// Microseconds of its forward passes, also of those that `train.recompute` repeats, without
    /// layers inside it.
    pub forward_us: f64,
    /// Microseconds of its backward passes; 0 if burn's own operations computed its gradients.
    pub backward_us: f64,
    /// Floating-point operations of the products of both; 0 for a layer without products.
    pub operations: u64,
}

impl LayerTimes {
    /// The file of a training run's traced steps in its folder.
    pub const OF_TRAINING: &'static str = TraceFiles::TRAINING.layers;
    /// The same of an evaluation.
    pub const OF_EVALUATION: &'static str = TraceFiles::EVALUATION.layers;
    /// The same of predictions.
    pub const OF_PREDICTION: &'static str = TraceFiles::PREDICTION.layers;

    /// The rate of a layer in both passes, in 10⁹ floating-point operations a second; `None` for a
    /// layer without products.
    #[must_use]
    pub fn gflop_per_s(&self, layer: &LayerTime) -> Option<f64> {
        (layer.operations > 0).then(|| layer.operations as f64 * 1e-3 / layer.total_us())
    }

    /// Microseconds of both passes of all steps.
    #[must_use]
    pub const fn total_us(&self) -> u64 {
        self.forward_us + self.backward_us
    }
}

impl LayerTime {
    /// Microseconds of both passes.
    #[must_use]
    pub fn total_us(&self) -> f64 {
        self.forward_us + self.backward_us
    }
}

/// Writes the trace of the first steps of a training or an evaluation.
pub(super) struct Tracer {
    folder: RunFolder,
    files: TraceFiles,
    trace: Trace,
    /// Whether the device computes a layer before its function returns.
    is_timed: bool,
    /// `None` after the last traced step.
    timer: Option<LayerTimer>,
    /// Of the first step's model: parameters keep their identifiers.
    names: Option<LayerNames>,
    left: u64,
    times: LayerTimes,
}

impl Tracer {
    /// Starts to record `steps` steps; the device is measured unless its peak is known.
    pub(super) fn start(
        folder: &RunFolder,
        files: TraceFiles,
        (policy, device): (Policy, &Device),
        (steps, peak): (u64, Option<f64>),
    ) -> Result<Self, RunError> {
        let peak_gflop_per_s = peak.or_else(|| Utilization::measure_peak(device, policy));
        Ok(Self {
            folder: RunFolder::open(folder.path())?,
            files,
            trace: Trace::create(folder.path(), files.trace)?,
            timer: Some(LayerTimer::start()),
            is_timed: updraft_conv::LayerPath::of(device) != updraft_conv::LayerPath::Plain,
            names: None,
            left: steps,
            times: LayerTimes {
                steps: 0,
                forward_us: 0,
                backward_us: 0,
                peak_gflop_per_s,
                layers: Vec::new(),
            },
        })
    }

    /// Adds a step that has just ended; the last one completes the files.
    pub(super) fn step(&mut self, step: &TracedStep, model: &impl Module) -> Result<(), RunError> {
        let Some(timer) = &mut self.timer else { return Ok(()) };
        let spans = timer.take();
        self.names.get_or_insert_with(|| layer_names(model));
        self.add(step, &spans)
    }

    /// Adds a prediction that has just ended, whose forward pass is the time from the first layer to
    /// the last.
    pub(super) fn prediction(&mut self, mut step: TracedStep) -> Result<(), RunError> {
        let Some(timer) = &mut self.timer else { return Ok(()) };
        let spans = timer.take();
        let first = spans.iter().map(|span| span.started).min();
        let last = spans.iter().map(|span| span.started + span.took).max();
        if let Some((first, last)) = first.zip(last) {
            step.times.forward_us = last.duration_since(first).as_micros() as u64;
            let ago_us = first.elapsed().as_micros() as u64;
            let end_us = step.begin_us + step.lasts_us;
            // What comes before the forward pass is the wait for its data.
            step.times.data_wait_us = end_us.saturating_sub(ago_us).saturating_sub(step.begin_us);
        }
        self.add(&step, &spans)
    }

    fn add(&mut self, step: &TracedStep, spans: &[LayerSpan]) -> Result<(), RunError> {
        let (now, end_us) = (Instant::now(), step.begin_us + step.lasts_us);
        self.trace.add_step(step)?;
        for span in spans.iter().filter(|_| self.is_timed) {
            let ago_us = now.saturating_duration_since(span.started).as_micros() as u64;
            let at_us = (end_us.saturating_sub(ago_us), span.took.as_micros() as u64);
            let named = self.names.as_ref().zip(span.layer.parameter);
            let named = named.and_then(|(names, parameter)| names.get(&parameter));
            let name = match named {
                // The module that contains the layer.
                Some(layer) if span.layer.is_part => {
                    layer.rsplit_once('.').map_or(span.layer.kind, |(module, _)| module)
                }
                Some(layer) => layer,
                None => span.layer.kind,
            };
            self.trace.add_layer(name, at_us, span)?;
            self.times.add(name, span);
        }
        self.times.steps += 1;
        self.times.forward_us += step.times.forward_us;
        self.times.backward_us += step.times.backward_us;
        self.left -= 1;
        if self.left == 0 { self.finish() } else { Ok(()) }
    }

    /// The names of the layers of a model that predicts.
    pub(super) fn with_names(self, names: LayerNames) -> Self {
        Self { names: Some(names), ..self }
    }

    /// Forgets what ran since the last step, such as an evaluation between epochs.
    pub(super) fn skip(&mut self) {
        if let Some(timer) = &mut self.timer {
            timer.take();
        }
    }

    /// Writes the table of layers, also if fewer steps ran.
    pub(super) fn finish(&mut self) -> Result<(), RunError> {
        if self.timer.take().is_none() {
            return Ok(());
        }
        self.times.layers.sort_by(|a, b| b.total_us().total_cmp(&a.total_us()));
        self.trace.flush()?;
        self.folder.write_json(self.files.layers, &self.times)
    }
}

impl LayerTimes {
    fn add(&mut self, name: &str, span: &LayerSpan) {
        let known = self.layers.iter().position(|it| it.layer == name);
        let at = known.unwrap_or_else(|| {
            self.layers.push(LayerTime {
                layer: name.to_owned(),
                kind: span.layer.kind.to_owned(),
                calls: 0,
                plain_calls: 0,
                forward_us: 0.0,
                backward_us: 0.0,
                operations: 0,
            });
            self.layers.len() - 1
        });
        let layer = &mut self.layers[at];
        let us = span.own.as_secs_f64() * 1e6;
        match span.pass {
            LayerPass::Forward => {
                layer.calls += 1;
                layer.plain_calls += u64::from(span.is_plain);
                layer.forward_us += us;
            }
            LayerPass::Backward => layer.backward_us += us,
        }
        layer.operations += span.operations;
    }
}
