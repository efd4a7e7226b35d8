//! A subset of a source of images.

use std::sync::Arc;

use crate::digest::Digest;
use crate::error::DataError;
use crate::image::Image;
use crate::source::{ImageSource, derived_state};

/// The samples of another source at the given indices, in the given order.
///
/// The classes are those of the other source, even if the subset has no sample of a class. Errors
/// name a sample by its index in the other source.
pub struct Subset {
    source: Arc<dyn ImageSource>,
    indices: Vec<usize>,
}

impl Subset {
    /// Chooses samples; one may be chosen several times.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no indices, [`DataError::OutOfRange`] for an index that is too
    /// large.
    pub fn try_new(source: Arc<dyn ImageSource>, indices: Vec<usize>) -> Result<Self, DataError> {
        let samples = source.len();
        match indices.iter().find(|&&index| index >= samples) {
            Some(&index) => Err(DataError::OutOfRange { index, samples }),
            None if indices.is_empty() => Err(DataError::Empty),
            None => Ok(Self { source, indices }),
        }
    }
}

impl ImageSource for Subset {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn classes(&self) -> &[String] {
        self.source.classes()
    }

    fn label(&self, index: usize) -> usize {
        self.source.label(self.indices[index])
    }

    fn name(&self, index: usize) -> String {
        self.source.name(self.indices[index])
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        self.source.read(self.indices[index])
    }

    fn read_for(&self, index: usize, size: (usize, usize)) -> Result<Image<'_>, DataError> {
        self.source.read_for(self.indices[index], size)
    }

    fn fingerprint(&self) -> String {
        let digest = Digest::new("updraft subset").text(&self.source.fingerprint());
        self.indices.iter().fold(digest, |digest, &index| digest.number(index)).hex()
    }

    fn stored_state(&self) -> String {
        derived_state(&self.fingerprint(), &self.source.stored_state())
    }
}
