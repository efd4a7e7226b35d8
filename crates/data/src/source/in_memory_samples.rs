//! Samples in memory.

use crate::digest::Digest;
use crate::error::DataError;
use crate::sample::Sample;
use crate::source::sample_source::SampleSource;

/// Samples in memory, each with a name.
///
/// The fingerprint covers every value and target, not the names.
#[derive(Debug, Clone)]
pub struct InMemorySamples {
    samples: Vec<(String, Sample<'static>)>,
    fingerprint: String,
}

impl InMemorySamples {
    /// Takes samples with their names.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no samples.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use updraft_data::{
    ///     InMemorySamples, Loader, Raster, Sample, SampleConfig, SampleTarget, TargetBatch,
    /// };
    ///
    /// // A picture of four channels of u16, and a mask.
    /// let raster = Raster::try_new(4, &[2, 3], vec![0_u16; 4 * 2 * 3])?;
    /// let mask = Raster::try_new(1, &[2, 3], vec![0_u8, 0, 1, 0, 1, 1])?;
    /// let sample = Sample { raster, target: SampleTarget::Labels(mask) };
    /// let samples = InMemorySamples::try_new(vec![("nuclei".to_owned(), sample)])?;
    ///
    /// let loader = Loader::from_samples(Arc::new(samples), SampleConfig::new(1))?;
    /// let batch = loader.epoch(0).next().expect("one batch")?;
    /// assert_eq!(batch.sample_shape(), [4, 2, 3]);
    /// assert!(matches!(batch.targets(), TargetBatch::Labels { .. }));
    /// # Ok::<(), updraft_data::DataError>(())
    /// ```
    pub fn try_new(samples: Vec<(String, Sample<'static>)>) -> Result<Self, DataError> {
        if samples.is_empty() {
            return Err(DataError::Empty);
        }
        let digest = Digest::new("updraft samples in memory").number(samples.len());
        let digest = samples.iter().fold(digest, |digest, (_, sample)| sample.describe(digest));
        Ok(Self { samples, fingerprint: digest.hex() })
    }
}

impl SampleSource for InMemorySamples {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn name(&self, index: usize) -> String {
        self.samples[index].0.clone()
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        Ok(self.samples[index].1.borrowed())
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}
