//! Batches on their way into a calibration or a test, under a bar.

use anyhow::Result;
use updraft_data::{Progress, ProgressUnit};
use updraft_run::LabeledBatches;

use crate::Failed;
use crate::progress::Display;
use crate::stop;

/// Batches, while a bar shows how far they are.
pub(super) struct Batches<'a> {
    batches: LabeledBatches<'a>,
    display: &'a mut Display,
    activity: &'a str,
    progress: Progress,
    failed: Option<anyhow::Error>,
}

impl<'a> Batches<'a> {
    pub(super) fn new(
        (batches, samples): (LabeledBatches<'a>, usize),
        display: &'a mut Display,
        activity: &'a str,
    ) -> Self {
        let progress = Progress { done: 0, total: samples as u64, unit: ProgressUnit::Samples };
        Self { batches, display, activity, progress, failed: None }
    }

    /// What ended them before their time.
    pub(super) fn end(self) -> Result<()> {
        self.display.clear();
        self.failed.map_or(Ok(()), Err)
    }
}

impl Iterator for Batches<'_> {
    type Item = (Vec<f32>, Vec<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        if stop::requested() {
            let said = "stopped before all samples were seen; nothing was written";
            self.failed = Some(Failed(said.to_owned()).into());
            return None;
        }
        match self.batches.next()? {
            Ok((inputs, classes)) => {
                self.progress.done += classes.len() as u64;
                self.display.preparing(self.activity, self.progress);
                Some((inputs, classes))
            }
            Err(error) => {
                self.failed = Some(anyhow::Error::from_boxed(error));
                None
            }
        }
    }
}
