//! A trace of predictions.

use std::time::Instant;

use burn::tensor::Device;
use serde_json::json;
use updraft_precision::Policy;

use super::kernels::LayerNames;
use super::layer_times::{TraceFiles, Tracer};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::record::TracedStep;

/// Writes a trace of the first predictions of a model into its run's folder: `trace-predict.json` for
/// Chrome and Perfetto, and [`LayerTimes::OF_PREDICTION`](crate::LayerTimes::OF_PREDICTION).
///
/// Made by [`TrainedModel::trace`](crate::TrainedModel::trace). It belongs to the thread that predicts.
pub struct PredictionTrace {
    tracer: Tracer,
    started: Instant,
    /// The end of the prediction before.
    begin_us: u64,
    predictions: u64,
}

impl PredictionTrace {
    pub(crate) fn start(
        folder: &RunFolder,
        names: LayerNames,
        (policy, device): (Policy, &Device),
        steps: u64,
    ) -> Result<Self, RunError> {
        let tracer =
            Tracer::start(folder, TraceFiles::PREDICTION, (policy, device), (steps, None))?;
        let tracer = tracer.with_names(names);
        Ok(Self { tracer, started: Instant::now(), begin_us: 0, predictions: 0 })
    }

    /// Adds a file or a batch of windows whose prediction has just ended; those after the first ones
    /// are not recorded.
    ///
    /// # Errors
    /// [`RunError::Io`] if the folder cannot be written.
    pub fn add(&mut self) -> Result<(), RunError> {
        let now_us = self.started.elapsed().as_micros() as u64;
        let step = TracedStep {
            name: format!("prediction {}", self.predictions),
            begin_us: self.begin_us,
            lasts_us: now_us - self.begin_us,
            times: Default::default(),
            upload: None,
            facts: json!({}),
        };
        (self.begin_us, self.predictions) = (now_us, self.predictions + 1);
        self.tracer.prediction(step)
    }

    /// Writes the table of layers, also if fewer predictions were made.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn finish(&mut self) -> Result<(), RunError> {
        self.tracer.finish()
    }
}
