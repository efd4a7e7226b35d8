//! Metrics that burn does not have.

mod samples_f1;

pub use samples_f1::SamplesF1;
