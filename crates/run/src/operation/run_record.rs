//! The records that a run writes while it trains.

use burn::module::Module;
use serde_json::{Value, json};
use updraft_trainer::Event;

use super::layer_times::Tracer;
use crate::data_wait::DataWait;
use crate::error::RunError;
use crate::file_contents::FileContents;
use crate::folder::RunFolder;
use crate::gpu_load::{GpuLoad, GpuSummary};
use crate::lock::RunLock;
use crate::peak_memory::PeakMemory;
use crate::record::{Metrics, TracedStep};
use crate::utilization::Utilization;

/// The records of a run in progress.
pub(super) struct Record<'a> {
    pub(super) folder: RunFolder,
    pub(super) metrics: Metrics,
    pub(super) contents: FileContents<'a>,
    /// Held while the run is written.
    pub(super) lock: Option<RunLock>,
    /// The memory that the process and its device held.
    pub(super) held: PeakMemory,
    /// If it is logged.
    pub(super) utilization: Option<Utilization>,
    /// Of an NVIDIA card, until the end of training.
    pub(super) gpu: Option<GpuLoad>,
    /// If steps are traced.
    pub(super) tracer: Option<Tracer>,
    pub(super) waits: DataWait,
}

impl Record<'_> {
    /// Adds an event to the records.
    ///
    /// # Errors
    /// [`RunError::LostLock`] before a checkpoint of a run whose lock is lost, [`RunError::Record`] if
    /// the event cannot be recorded.
    pub(super) fn add(
        &mut self,
        event: &Event,
        model: &impl Module,
        epoch_fields: impl FnOnce() -> Vec<(&'static str, Value)>,
    ) -> Result<(), RunError> {
        if let Some(gpu) = &mut self.gpu {
            gpu.see(event);
        }
        // Before the metrics are flushed: another process may have replaced them, too.
        if matches!(event, Event::Saving { .. }) {
            self.check_lock().map_err(|cause| RunError::LostLock(Box::new(cause)))?;
        }
        let written = self.write(event, epoch_fields).and_then(|()| self.trace(event, model));
        written.map_err(|cause| RunError::Record(Box::new(cause)))
    }

    /// Writes what is left after the last event, and returns the load of the card.
    ///
    /// # Errors
    /// [`RunError::Replaced`] if the lock or the metrics are lost, [`RunError::Io`].
    pub(super) fn finish(&mut self) -> Result<Option<GpuSummary>, RunError> {
        let gpu = self.gpu.take().and_then(GpuLoad::end);
        self.check_lock()?;
        self.metrics.flush()?;
        self.tracer.as_mut().map_or(Ok(()), Tracer::finish)?;
        Ok(gpu)
    }

    /// Checks that no other process can have locked the folder.
    fn check_lock(&self) -> Result<(), RunError> {
        self.lock.as_ref().map_or(Ok(()), RunLock::check)
    }

    /// Adds a step to the trace, if it is one of the traced steps.
    fn trace(&mut self, event: &Event, model: &impl Module) -> Result<(), RunError> {
        let Some(tracer) = &mut self.tracer else { return Ok(()) };
        let Event::Step(report) = event else {
            tracer.skip();
            return Ok(());
        };
        let step = TracedStep {
            name: format!("step {}", report.step),
            begin_us: report.at_us,
            lasts_us: report.times.data_wait_us + report.step_us,
            times: report.times,
            upload: report.upload,
            facts: json!({ "loss": report.loss, "samples": report.samples }),
        };
        tracer.step(&step, model)
    }

    fn write(
        &mut self,
        event: &Event,
        epoch_fields: impl FnOnce() -> Vec<(&'static str, Value)>,
    ) -> Result<(), RunError> {
        match event {
            Event::Step(report) => {
                self.waits.add(report);
                let share = self.utilization.as_ref();
                let share = share.map(|it| it.fields(report.samples as f64, report.step_us));
                self.metrics.write(event, share.as_ref().map_or(&[], |share| share))
            }
            Event::Epoch(report) => {
                let mut fields = epoch_fields();
                if let Some(utilization) = &self.utilization {
                    let samples = report.samples_per_s * report.train_us as f64 * 1e-6;
                    fields.extend(utilization.fields(samples, report.train_us));
                }
                fields.push(DataWait::field(report));
                fields.extend(self.held.epoch()?);
                fields.extend(self.gpu.as_mut().and_then(GpuLoad::epoch));
                self.metrics.write(event, &fields)
            }
            // A resumed run starts from the checkpoint, so what is recorded must be complete up to it.
            Event::Saving { .. } => {
                self.metrics.flush()?;
                self.contents.store(&self.folder)
            }
            _ => Ok(()),
        }
    }
}
