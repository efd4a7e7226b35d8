//! The trait of an engine for data-parallel training.

/// Exchanges of bytes among the ranks of one run, in host memory.
///
/// Every rank calls the same methods in the same order with the same lengths.
/// Sums are computed from these by [`AllReduce`](crate::AllReduce), so that every engine adds in the
/// order of ranks and gives the same bits.
pub trait Collective {
    /// The number of this rank, less than [`size`](Self::size).
    fn rank(&self) -> usize;

    /// How many ranks there are, at least one.
    fn size(&self) -> usize;

    /// Overwrites `data` by that of the rank `root`.
    ///
    /// # Errors
    /// [`CollectiveError`] if a rank is lost, does not arrive in time or passes another length.
    fn broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<(), CollectiveError>;

    /// Sends part `r` of `send` to rank `r`, and places what rank `r` sent here in part `r` of
    /// `receive`.
    ///
    /// Both buffers have one part for each rank, all of one length.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn all_to_all(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError>;

    /// Places what rank `r` sent in part `r` of `receive`.
    ///
    /// `receive` is as long as the `send` of all ranks together.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn all_gather(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError>;

    /// Returns when every rank has called it.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    fn barrier(&mut self) -> Result<(), CollectiveError>;
}

/// Errors of collective calls.
///
/// No later call can succeed: end the process and restart from the last checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// A rank ended before the others.
    #[error("rank {rank} has ended; restart the run from its last checkpoint")]
    Lost {
        /// The rank that ended.
        rank: usize,
    },
    /// A rank did not arrive in time.
    #[error(
        "rank {rank} did not arrive within {seconds} s; restart the run from its last checkpoint"
    )]
    TimedOut {
        /// The first rank that is missing.
        rank: usize,
        /// How long the others waited.
        seconds: u64,
    },
    /// Two ranks called with different lengths.
    #[error("rank {rank} passed {found} bytes where this rank passed {expected}")]
    Length {
        /// The other rank.
        rank: usize,
        /// Bytes that this rank passed.
        expected: usize,
        /// Bytes that the other passed.
        found: usize,
    },
    /// Two ranks were started for different things.
    #[error("{what} is `{found}` on rank {rank} and `{expected}` on rank 0; start all ranks alike")]
    Disagreement {
        /// What differs: a configuration, a digest of data, a version.
        what: String,
        /// The first rank that differs from rank 0.
        rank: usize,
        /// The value of rank 0.
        expected: String,
        /// The value of the other.
        found: String,
    },
}

impl CollectiveError {
    /// Whether the ranks were started with other arguments or data, so that a restart changes nothing.
    #[must_use]
    pub const fn is_input(&self) -> bool {
        matches!(self, Self::Disagreement { .. })
    }
}
