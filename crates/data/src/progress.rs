//! The progress of a long preparation.

/// The progress of a long preparation, which its callback receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is finished.
    pub done: u64,
    /// What there is to do.
    pub total: u64,
    /// What is counted.
    pub unit: ProgressUnit,
}

/// What [`Progress`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgressUnit {
    /// Bytes of the file on disk, compressed if it is.
    Bytes,
    /// Decoded images.
    Images,
    /// Samples that were read.
    Samples,
    /// Folders whose files were listed.
    Folders,
}
