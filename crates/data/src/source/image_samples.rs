//! Labeled images as samples with a class.

use std::sync::Arc;

use crate::error::DataError;
use crate::sample::{Sample, SampleTarget};
use crate::source::image_source::{ImageSource, place};
use crate::source::sample_source::SampleSource;

/// The images of an [`ImageSource`] as samples of three channels of u8, with their class as target.
///
/// Nothing is copied, and the fingerprint is that of the images.
pub struct ImageSamples {
    source: Arc<dyn ImageSource>,
}

impl ImageSamples {
    /// Takes the images of a source.
    #[must_use]
    pub fn new(source: Arc<dyn ImageSource>) -> Self {
        Self { source }
    }
}

impl SampleSource for ImageSamples {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn name(&self, index: usize) -> String {
        self.source.name(index)
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        let (label, classes) = (self.source.label(index), self.source.classes().len());
        if label >= classes {
            let place = place(&*self.source, index);
            return Err(DataError::Label { place, label, classes });
        }
        let raster = self.source.read(index)?.into();
        Ok(Sample { raster, target: SampleTarget::Class(label) })
    }

    fn fingerprint(&self) -> String {
        self.source.fingerprint()
    }

    fn stored_state(&self) -> String {
        self.source.stored_state()
    }
}
