//! Metrics: named numbers, and the scores that they are computed from.

mod class_counts;
mod deviations;
mod loss_sums;
mod named;
mod samples_f1;
mod score;
mod sum;

pub use class_counts::ClassCounts;
pub use deviations::Deviations;
pub use loss_sums::LossSums;
pub use named::{Direction, Evaluation, Metric, MetricSpec, Unit};
pub(crate) use named::{as_map, stored};
pub use samples_f1::SamplesF1;
pub use score::Score;
pub use sum::Sum;
