//! What became of a cache when it was opened.

/// What became of a cache when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheUse {
    /// There is none: what it would hold is read where it lies.
    NotNeeded,
    /// It was there and whole.
    Reused,
    /// It was not there and has been made.
    Built,
    /// It was damaged or of another version and has been made anew.
    Rebuilt {
        /// What was wrong with it, for a message.
        reason: String,
    },
}
