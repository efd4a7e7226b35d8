//! The progress of a prediction.

use std::time::Duration;

/// How far a prediction is: what its progress callback receives after each batch of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowProgress {
    /// Windows that are predicted, in this run or in one that it goes on with.
    pub done: u64,
    /// Windows of all frames.
    pub total: u64,
    /// Windows that this run predicted.
    pub here: u64,
    /// How long this run has taken.
    pub elapsed: Duration,
}

impl WindowProgress {
    /// How long the rest takes, at the pace so far; `None` before the first window.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use updraft_data::WindowProgress;
    ///
    /// let elapsed = Duration::from_secs(10);
    /// let progress = WindowProgress { done: 60, total: 100, here: 20, elapsed };
    /// assert_eq!(progress.left(), Some(Duration::from_secs(20)));
    /// ```
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let left = self.total.saturating_sub(self.done) as f64;
        (self.here > 0).then(|| self.elapsed.mul_f64(left / self.here as f64))
    }
}
