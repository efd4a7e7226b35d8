//! Batches of images on their way into a calibration or a test, under a bar.

use anyhow::{Result, anyhow};
use updraft_data::{DataError, ImageBatch, Loader, Progress, ProgressUnit};

use crate::progress::Display;
use crate::stop;

/// The batches of a loader's first epoch, while a bar tells how far they are.
pub(super) struct Batches<'a> {
    epoch: Box<dyn Iterator<Item = Result<ImageBatch, DataError>> + 'a>,
    display: &'a mut Display,
    activity: &'a str,
    progress: Progress,
    failed: Option<anyhow::Error>,
}

impl<'a> Batches<'a> {
    pub(super) fn new(loader: &'a Loader, display: &'a mut Display, activity: &'a str) -> Self {
        let total = loader.samples() as u64;
        let progress = Progress { done: 0, total, unit: ProgressUnit::Images };
        Self { epoch: Box::new(loader.epoch(0)), display, activity, progress, failed: None }
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
