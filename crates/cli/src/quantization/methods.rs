//! The methods of finding ranges, beside each other.

use serde::Serialize;
use updraft_quant::Evaluation;

/// What a method gives on the test data.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Compared {
    pub(super) method: &'static str,
    /// The model's mean score.
    pub(super) score: f64,
    /// The share of samples whose answers say what those of f32 say, where the score knows it.
    pub(super) agreement: Option<f64>,
    /// Signal to quantization noise of the answers; none if there is no noise.
    pub(super) sqnr_db: Option<f64>,
}

impl From<&Evaluation> for Compared {
    fn from(told: &Evaluation) -> Self {
        Self {
            method: told.calibration,
            score: told.score_int8,
            agreement: told.agreement,
            sqnr_db: told.sqnr_db,
        }
    }
}
