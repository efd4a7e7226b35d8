//! The time of each layer in traced steps.

use std::collections::HashMap;
use std::time::Instant;

use burn::module::{Module, ParamId};
use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use updraft_conv::{ConvolutionTimer, TimedConvolution};

use super::kernels::layer_names;
use crate::config::Plan;
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
}

/// The times of the layers of a model in the steps of a trace.
///
/// Layers are the convolutions that our kernels compute, whose arithmetic is known; everything else
/// is the rest of the forward pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerTimes {
    /// The number of traced steps, or of batches of an evaluation.
    pub steps: u64,
    /// Microseconds of the forward passes of all of them.
    pub forward_us: u64,
    /// The rate of matrix products on the device in the dtype of the computation, as measured, in
    /// 10⁹ floating-point operations a second; `None` if it could not be measured.
    pub peak_gflop_per_s: Option<f64>,
    /// The layers, the slowest first.
    pub layers: Vec<LayerTime>,
}

/// The time of a layer, summed over the steps of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LayerTime {
    /// The path of the layer in the model.
    pub layer: String,
    /// How often it ran.
    pub calls: u64,
    /// Microseconds of its forward passes.
    pub forward_us: f64,
    /// Floating-point operations of them.
    pub operations: u64,
}

impl LayerTimes {
    /// The file of a training run's traced steps in its folder.
    pub const OF_TRAINING: &'static str = TraceFiles::TRAINING.layers;
    /// The same of an evaluation.
    pub const OF_EVALUATION: &'static str = TraceFiles::EVALUATION.layers;

    /// The rate of a layer in 10⁹ floating-point operations a second.
    #[must_use]
    pub fn gflop_per_s(&self, layer: &LayerTime) -> f64 {
        layer.operations as f64 * 1e-3 / layer.forward_us
    }
}

/// Writes the trace of the first steps of a training or an evaluation.
pub(super) struct Tracer {
    folder: RunFolder,
    files: TraceFiles,
    trace: Trace,
    /// `None` after the last traced step.
    timer: Option<ConvolutionTimer>,
    /// Of the first step's model: parameters keep their identifiers.
    names: Option<HashMap<ParamId, String>>,
    left: u64,
    times: LayerTimes,
}

impl Tracer {
    /// Starts to record `steps` steps; the device is measured unless its peak is known.
    pub(super) fn start(
        folder: &RunFolder,
        files: TraceFiles,
        (plan, device): (&Plan, &Device),
        (steps, peak): (u64, Option<f64>),
    ) -> Result<Self, RunError> {
        let measure = || Utilization::measure(device, plan.precision, 0).ok();
        let peak_gflop_per_s = peak.or_else(|| measure().map(|it| it.peak_gflop_per_s()));
        Ok(Self {
            folder: RunFolder::open(folder.path())?,
            files,
            trace: Trace::create(folder.path(), files.trace)?,
            timer: Some(ConvolutionTimer::start()),
            names: None,
            left: steps,
            times: LayerTimes { steps: 0, forward_us: 0, peak_gflop_per_s, layers: Vec::new() },
        })
    }

    /// Adds a step that has just ended; the last one completes the files.
    pub(super) fn step(&mut self, step: &TracedStep, model: &impl Module) -> Result<(), RunError> {
        let Some(timer) = &mut self.timer else { return Ok(()) };
        let names = self.names.get_or_insert_with(|| layer_names(model));
        let (now, end_us) = (Instant::now(), step.begin_us + step.lasts_us);
        self.trace.add_step(step)?;
        for timed in timer.take() {
            let ago_us = now.duration_since(timed.started).as_micros() as u64;
            let at_us = (end_us.saturating_sub(ago_us), timed.took.as_micros() as u64);
            let name = names.get(&timed.convolution.weight).cloned().unwrap_or_default();
            self.trace.add_layer(&name, at_us, timed.convolution.operations())?;
            self.times.add(name, &timed);
        }
        self.times.steps += 1;
        self.times.forward_us += step.times.forward_us;
        self.left -= 1;
        if self.left == 0 { self.finish() } else { Ok(()) }
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
        self.times.layers.sort_by(|a, b| b.forward_us.total_cmp(&a.forward_us));
        self.trace.flush()?;
        self.folder.write_json(self.files.layers, &self.times)
    }
}

impl LayerTimes {
    fn add(&mut self, name: String, timed: &TimedConvolution) {
        let known = self.layers.iter_mut().find(|it| it.layer == name);
        let layer = match known {
            Some(layer) => layer,
            None => {
                let new = LayerTime { layer: name, calls: 0, forward_us: 0.0, operations: 0 };
                self.layers.push(new);
                self.layers.last_mut().expect("one was added")
            }
        };
        layer.calls += 1;
        layer.forward_us += timed.took.as_secs_f64() * 1e6;
        layer.operations += timed.convolution.operations();
    }
}
