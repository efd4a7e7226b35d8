//! Losses, one a file; each is the mean over samples unless stated otherwise.

mod absolute;
mod asymmetric;
mod binary;
mod class_weights;
mod cross_entropy;
mod dice;
mod focal;
mod gradient_norm;
mod mse;
mod ordinal;
mod uncertainty;

pub use absolute::{huber, mean_absolute_error, quantile_loss};
pub use asymmetric::Asymmetric;
pub use binary::binary_cross_entropy;
pub use class_weights::{balanced_weights, effective_number_weights};
pub use cross_entropy::{cross_entropy, soft_cross_entropy, soft_targets, weighted_cross_entropy};
pub use dice::dice_cross_entropy;
pub use focal::{focal, weighted_focal};
pub use gradient_norm::GradientNormWeights;
pub use mse::mean_squared_error;
pub use ordinal::{ordinal_classes, ordinal_cross_entropy};
pub use uncertainty::UncertaintyWeights;
