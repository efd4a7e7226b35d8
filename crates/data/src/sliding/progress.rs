//! The progress of a prediction.

use std::time::Duration;

/// The progress of a prediction, which the callback receives after each batch of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowProgress {
    /// Windows predicted so far, including those of an earlier run that this one resumes.
    pub done: u64,
    /// Windows of all frames.
    pub total: u64,
    /// Windows predicted by this run.
    pub here: u64,
    /// The elapsed time of this run.
    pub elapsed: Duration,
}

impl WindowProgress {
    /// The estimated remaining time; `None` before the first window.
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
