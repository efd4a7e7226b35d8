//! What the loader asks of a set of labeled images.

use crate::error::{DataError, Place};
use crate::image::Image;

/// A set of labeled images that can be read in any order, by several threads at once.
///
/// Reading is a function of the index: the same image for every call and thread.
/// An implementation that panics is reported as an error that names the sample.
pub trait ImageSource: Send + Sync {
    /// How many samples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of the classes; a label is an index into them.
    fn classes(&self) -> &[String];

    /// The class of a sample.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    fn label(&self, index: usize) -> usize;

    /// What a message calls a sample: its file, or how it was made.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    fn name(&self, index: usize) -> String;

    /// One image.
    ///
    /// # Errors
    /// What is wrong with this sample, by name and index.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    fn read(&self, index: usize) -> Result<Image<'_>, DataError>;

    /// One image for a caller that resizes it to `size`, height and width: [`read`](Self::read)'s,
    /// or one that was decoded smaller, where that is cheaper and the result looks the same.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    fn read_for(&self, index: usize, size: (usize, usize)) -> Result<Image<'_>, DataError> {
        let _ = size;
        self.read(index)
    }

    /// A SHA-256 of what the set is, as 64 hexadecimal digits: equal for equal sets.
    fn fingerprint(&self) -> String;
}

/// A sample, as a message names it.
pub(crate) fn place(source: &dyn ImageSource, index: usize) -> Place {
    Place { name: source.name(index), index: Some(index) }
}
