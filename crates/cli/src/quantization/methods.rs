//! The methods of finding ranges, beside each other.

use serde::Serialize;
use updraft_quant::Evaluation;

/// What a method gives on the test data.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Compared {
    pub(super) method: &'static str,
    /// The share that the model classifies rightly.
    pub(super) accuracy: f64,
    /// The share of images whose greatest answer is that of f32.
    pub(super) agreement: f64,
    /// Signal to quantization noise of the answers; none if there is no noise.
    pub(super) sqnr_db: Option<f64>,
}

impl From<&Evaluation> for Compared {
    fn from(told: &Evaluation) -> Self {
        Self {
            method: told.calibration,
            accuracy: told.accuracy_int8,
            agreement: told.agreement,
            sqnr_db: told.sqnr_db,
        }
    }
}
