//! The trait of a set of labeled images.

use crate::digest::Digest;
use crate::error::{DataError, Place};
use crate::image::Image;
use crate::known_contents::KnownContents;

/// A set of labeled images that can be read in any order, by several threads at once.
///
/// Reading is a function of the index: the same image for every call and thread.
/// An implementation that panics is reported as an error that names the sample.
pub trait ImageSource: Send + Sync {
    /// The number of samples.
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

    /// The name of a sample in a message: its file, or how it was made.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    fn name(&self, index: usize) -> String;

    /// Reads an image.
    ///
    /// # Errors
    /// The error of this sample, with name and index.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    fn read(&self, index: usize) -> Result<Image<'_>, DataError>;

    /// Reads an image for a caller that resizes it to `size` (height, width): the same as
    /// [`read`](Self::read), or decoded at a smaller size where that is cheaper and gives nearly
    /// the same result.
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

    /// A SHA-256 that identifies the set, as 64 hexadecimal digits: equal for equal sets.
    fn fingerprint(&self) -> String;

    /// A SHA-256 of the set with the times at which its files were changed, and on Unix their numbers
    /// in the file system: a cache file is made again if it differs. The
    /// [`fingerprint`](Self::fingerprint) by default, which does not depend on the machine.
    fn stored_state(&self) -> String {
        self.fingerprint()
    }

    /// The contents of the set's files as they were first read, one file a sample: reading one that
    /// has another content since is [`DataError::ChangedFile`].
    ///
    /// `None`, the default, for a set whose [`fingerprint`](Self::fingerprint) covers the contents,
    /// or whose samples are not those of another set in its order.
    fn known_contents(&self) -> Option<KnownContents> {
        None
    }
}

/// The [`ImageSource::stored_state`] of a set that is made of another one.
pub(crate) fn derived_state(fingerprint: &str, source: &str) -> String {
    Digest::new("updraft stored state").text(fingerprint).text(source).hex()
}

/// A sample, as a message names it.
pub(crate) fn place(source: &dyn ImageSource, index: usize) -> Place {
    Place { name: source.name(index), index: Some(index) }
}
