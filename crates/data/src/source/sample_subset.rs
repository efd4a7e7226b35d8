//! A subset of a set of samples.

use std::sync::Arc;

use crate::digest::Digest;
use crate::error::DataError;
use crate::sample::Sample;
use crate::source::derived_state;
use crate::source::sample_source::SampleSource;
use crate::stream::Draw;

/// The samples of another set at the given indices, in the given order, such as a training or a
/// test part.
///
/// Errors name a sample by its index in the other set.
pub struct SampleSubset {
    source: Arc<dyn SampleSource>,
    indices: Vec<usize>,
}

impl SampleSubset {
    /// Chooses samples; one may be chosen several times.
    ///
    /// # Errors
    /// [`DataError::Empty`] for no indices, [`DataError::OutOfRange`] for an index that is too
    /// large.
    pub fn try_new(source: Arc<dyn SampleSource>, indices: Vec<usize>) -> Result<Self, DataError> {
        let samples = source.len();
        match indices.iter().find(|&&index| index >= samples) {
            Some(&index) => Err(DataError::OutOfRange { index, samples }),
            None if indices.is_empty() => Err(DataError::Empty),
            None => Ok(Self { source, indices }),
        }
    }
}

impl SampleSource for SampleSubset {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn name(&self, index: usize) -> String {
        self.source.name(self.indices[index])
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        self.source.read(self.indices[index])
    }

    fn draw(&self, draw: Draw) -> Result<Sample<'_>, DataError> {
        self.source.draw(Draw { index: self.indices[draw.index], ..draw })
    }

    fn is_random(&self) -> bool {
        self.source.is_random()
    }

    fn fingerprint(&self) -> String {
        let digest = Digest::new("updraft sample subset").text(&self.source.fingerprint());
        self.indices.iter().fold(digest, |digest, &index| digest.number(index)).hex()
    }

    fn stored_state(&self) -> String {
        derived_state(&self.fingerprint(), &self.source.stored_state())
    }
}
