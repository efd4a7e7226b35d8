//! The training images that ranges are found on, written down in the run's folder.

use std::sync::Arc;

use anyhow::Result;
use updraft_data::{ImageSource, Split, Subset, stratified_sample};

use crate::config::Plan;
use crate::run_folder::RunFolder;
use crate::workload::ImageData;

/// The file of a run's folder that says which training images calibrate: a [`Split`] of the
/// training set whose held-out part they are.
pub(super) const CALIBRATION: &str = "calibration.json";

/// Training images of all classes, each class with its share.
pub(super) struct CalibrationSet {
    pub(super) images: Arc<dyn ImageSource>,
    set: String,
    split: Split,
}

impl CalibrationSet {
    /// So many images, at most all: those that the run's folder names if it names so many, else a
    /// sample that follows from the labels and the run's seed.
    ///
    /// # Errors
    /// For a file in the folder that is damaged, or that names images of another training set.
    pub(super) fn of(
        folder: &RunFolder,
        plan: &Plan,
        data: &ImageData,
        count: usize,
    ) -> Result<Self> {
        let (train, set) = (&data.train, data.train.fingerprint());
        let count = count.min(train.len());
        let path = folder.path().join(CALIBRATION);
        let written = if path.exists() { Some(Split::read(&set, &path)?) } else { None };
        let split = match written.filter(|split| split.held_out.len() == count) {
            Some(split) => split,
            None => {
                let labels: Vec<usize> = (0..train.len()).map(|at| train.label(at)).collect();
                stratified_sample(&labels, count, plan.seed)?
            }
        };
        let images = Arc::new(Subset::try_new(train.clone(), split.held_out.clone())?);
        Ok(Self { images, set, split })
    }

    /// Writes it down in the run's folder; the file is whole or not there.
    pub(super) fn write(&self, folder: &RunFolder) -> Result<()> {
        Ok(self.split.write(&self.set, folder.path().join(CALIBRATION))?)
    }
}
