//! What can be done with the model of a task.

use std::fmt;

/// What can be done with the model of a task: a command of the command line, or a setting.
///
/// A task lists those that it refuses in [`TaskKind::refusals`](crate::TaskKind::refusals); its text
/// is the name of the command or the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ability {
    /// `train`, with checkpoints and resuming.
    Train,
    /// `eval`.
    Eval,
    /// `predict`.
    Predict,
    /// `lr-find`.
    LrFind,
    /// `compare`.
    Compare,
    /// `batch-find` and `train.auto_batch`.
    BatchFind,
    /// `warm-up`.
    WarmUp,
    /// `quantize`.
    Quantize,
    /// `pipeline`.
    Pipeline,
    /// `report`.
    Report,
    /// `verify`.
    Verify,
    /// `train.recompute = "segments"`.
    Segments,
    /// `train.recompute_batch_norms`.
    BatchNorms,
    /// `log.utilization`.
    Utilization,
}

impl Ability {
    /// All of them, commands first.
    pub const ALL: [Self; 14] = [
        Self::Train,
        Self::Eval,
        Self::Predict,
        Self::LrFind,
        Self::Compare,
        Self::BatchFind,
        Self::WarmUp,
        Self::Quantize,
        Self::Pipeline,
        Self::Report,
        Self::Verify,
        Self::Segments,
        Self::BatchNorms,
        Self::Utilization,
    ];
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Eval => "eval",
            Self::Predict => "predict",
            Self::LrFind => "lr-find",
            Self::Compare => "compare",
            Self::BatchFind => "batch-find, train.auto_batch",
            Self::WarmUp => "warm-up",
            Self::Quantize => "quantize",
            Self::Pipeline => "pipeline",
            Self::Report => "report",
            Self::Verify => "verify",
            Self::Segments => "train.recompute = \"segments\"",
            Self::BatchNorms => "train.recompute_batch_norms",
            Self::Utilization => "log.utilization",
        })
    }
}
