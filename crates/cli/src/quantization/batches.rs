//! Calibration batches, with a progress bar.

use anyhow::Result;
use updraft_data::{Progress, ProgressUnit};
use updraft_run::InputBatches;

use crate::Stopped;
use crate::progress::Display;
use crate::stop;

/// The message to a user who stops a quantization.
pub(super) const STOPPED: &str = "stopped before all samples were seen; nothing was written";

/// Batches, with a progress bar.
pub(super) struct Batches<'a> {
    batches: InputBatches<'a>,
    display: &'a mut Display,
    activity: &'a str,
    /// Numbers of a sample.
    each: usize,
    progress: Progress,
    failed: Option<anyhow::Error>,
}

impl<'a> Batches<'a> {
    pub(super) fn new(
        (batches, samples): (InputBatches<'a>, usize),
        each: usize,
        display: &'a mut Display,
        activity: &'a str,
    ) -> Self {
        let progress = Progress { done: 0, total: samples as u64, unit: ProgressUnit::Samples };
        Self { batches, display, activity, each, progress, failed: None }
    }

    /// The error that ended them early.
    pub(super) fn end(self) -> Result<()> {
        self.display.clear();
        self.failed.map_or(Ok(()), Err)
    }
}

impl Iterator for Batches<'_> {
    type Item = Vec<f32>;

    fn next(&mut self) -> Option<Self::Item> {
        if stop::requested() {
            self.failed = Some(Stopped(STOPPED.to_owned()).into());
            return None;
        }
        match self.batches.next()? {
            Ok(inputs) => {
                self.progress.done += (inputs.len() / self.each) as u64;
                self.display.preparing(self.activity, self.progress);
                Some(inputs)
            }
            Err(error) => {
                self.failed = Some(anyhow::Error::from_boxed(error));
                None
            }
        }
    }
}
