//! Metrics, and the scores from which they are computed.

mod boundary;
mod calibration;
mod class_counts;
mod class_scores;
mod confusion;
mod deviations;
mod distance_transform;
mod image_scores;
mod label_scores;
mod loss_sums;
mod mask_scores;
mod moments;
mod named;
mod ranking;
mod samples_f1;
mod score;
mod sum;

pub use boundary::{BoundaryDistances, boundary_distances};
pub use calibration::Calibration;
pub use class_counts::ClassCounts;
pub use class_scores::ClassScores;
pub use confusion::Confusion;
pub use deviations::Deviations;
pub use image_scores::ImageScores;
pub use label_scores::LabelScores;
pub use loss_sums::LossSums;
pub use mask_scores::MaskScores;
pub use named::{Direction, Evaluation, Metric, MetricSpec, Unit};
pub(crate) use named::{as_map, stored};
pub use ranking::Ranking;
pub use samples_f1::SamplesF1;
pub use score::Score;
pub use sum::Sum;
