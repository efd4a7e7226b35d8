//! Losses, one per file; each is the mean over samples unless stated otherwise.

mod absolute;
mod asymmetric;
mod binary;
mod class_weights;
mod cross_entropy;
mod dice;
mod focal;
mod gradient_norm;
mod mask;
mod mse;
mod ordinal;
mod ssim;
mod tversky;
mod uncertainty;

pub use absolute::{huber, mean_absolute_error, quantile_loss};
pub use asymmetric::Asymmetric;
pub use binary::binary_cross_entropy;
pub use class_weights::{balanced_weights, effective_number_weights};
pub use cross_entropy::{cross_entropy, soft_cross_entropy, soft_targets, weighted_cross_entropy};
pub use dice::{dice_cross_entropy, dice_loss};
pub use focal::{focal, weighted_focal};
pub use gradient_norm::GradientNormWeights;
pub use mask::{MaskActivation, mask_cross_entropy};
pub(crate) use mask::{assert_belong, at_least_f32};
pub use mse::mean_squared_error;
pub use ordinal::{ordinal_classes, ordinal_cross_entropy};
pub use ssim::ssim_loss;
pub(crate) use ssim::structural_similarity;
pub use tversky::tversky_loss;
pub use uncertainty::UncertaintyWeights;
