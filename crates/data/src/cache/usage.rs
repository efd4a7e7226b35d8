//! The state of a cache when it was opened.

/// The state of a cache when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheUse {
    /// There is no cache: the data is read in place.
    NotNeeded,
    /// It was there and whole.
    Reused,
    /// It did not exist and was created.
    Built,
    /// It was damaged or of another version and was rebuilt.
    Rebuilt {
        /// What was wrong with it, for a message.
        reason: String,
    },
}
