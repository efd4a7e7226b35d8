//! The trait of a set of samples.

use crate::error::{DataError, Place};
use crate::sample::Sample;
use crate::stream::Draw;

/// A set of samples that can be read in any order, by several threads at once.
///
/// Reading is a function of the index: the same sample for every call and thread.
/// To be collated, all samples have the pixel type, the channels and the sides of the first one,
/// and targets of one kind and shape.
/// An implementation that panics is reported as an error that names the sample.
pub trait SampleSource: Send + Sync {
    /// The number of samples.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of a sample in a message: its file, or how it was made.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    fn name(&self, index: usize) -> String;

    /// Reads a sample.
    ///
    /// # Errors
    /// The error of this sample, with name and index.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    fn read(&self, index: usize) -> Result<Sample<'_>, DataError>;

    /// Reads a sample for one delivery: a set whose samples differ in every epoch, such as patches
    /// at random positions, uses the seed, epoch and index, and [`is_random`](Self::is_random).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Panics
    /// As [`read`](Self::read).
    fn draw(&self, draw: Draw) -> Result<Sample<'_>, DataError> {
        self.read(draw.index)
    }

    /// Whether [`draw`](Self::draw) depends on seed or epoch; it does not by default.
    fn is_random(&self) -> bool {
        false
    }

    /// A SHA-256 that identifies the set, as 64 hexadecimal digits: equal for equal sets.
    fn fingerprint(&self) -> String;

    /// A SHA-256 of the set with the times at which its files were changed, and on Unix their numbers
    /// in the file system: a cache file is made again if it differs. The
    /// [`fingerprint`](Self::fingerprint) by default, which does not depend on the machine.
    fn stored_state(&self) -> String {
        self.fingerprint()
    }
}

/// A sample, as a message names it.
pub(crate) fn sample_place(source: &dyn SampleSource, index: usize) -> Place {
    Place { name: source.name(index), index: Some(index) }
}
