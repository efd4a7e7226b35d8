//! Comparison of the calibration methods.

use serde::Serialize;
use updraft_quant::Evaluation;

/// The results of a method on the test data.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Compared {
    pub(super) method: &'static str,
    /// The model's mean score.
    pub(super) score: f64,
    /// The agreement with f32: the fraction of samples with equal predictions, if the score
    /// supports it.
    pub(super) agreement: Option<f64>,
    /// The signal-to-quantization-noise ratio of the outputs; `None` without noise.
    pub(super) sqnr_db: Option<f64>,
}

impl From<&Evaluation> for Compared {
    fn from(evaluation: &Evaluation) -> Self {
        Self {
            method: evaluation.calibration,
            score: evaluation.score_int8,
            agreement: evaluation.agreement,
            sqnr_db: evaluation.sqnr_db,
        }
    }
}
