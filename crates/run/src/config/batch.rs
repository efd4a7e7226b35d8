//! The bounds of `train.batch`: those of every model, and the number of samples.

use super::error::ConfigError;
use super::settings::Settings;
use super::train::TrainPlan;

/// The largest batch that `updraft_data::LoaderConfig` takes.
const MOST: usize = 1 << 24;

impl TrainPlan {
    /// Returns an error for a batch below the smallest one of the task, for a reason, or above the
    /// largest of all.
    pub(super) fn check_batch(
        &self,
        settings: &Settings,
        (least, why): (usize, &str),
    ) -> Result<(), ConfigError> {
        let searched = self.auto_batch.map(|auto| ("train.auto_batch.least", auto.least));
        for (key, batch) in [("train.batch", self.batch)].into_iter().chain(searched) {
            if batch < least {
                return Err(settings.refuse(key, batch, format!("at least {least}{why}")));
            }
        }
        match self.batch > MOST {
            true => Err(settings.refuse("train.batch", self.batch, format!("at most {MOST}"))),
            false => Ok(()),
        }
    }

    /// Returns an error for a batch of more samples than an epoch has; `counted` describes their
    /// number by its keys. A batch that is searched for is not larger.
    pub(crate) fn check_samples(
        &self,
        settings: &Settings,
        samples: usize,
        counted: &str,
    ) -> Result<(), ConfigError> {
        if self.auto_batch.is_some() || self.batch <= samples {
            return Ok(());
        }
        let expected = format!("at most {samples}, {counted}");
        Err(settings.refuse("train.batch", self.batch, expected))
    }
}
