//! Losses, one a file; each is the mean over samples unless stated otherwise.

mod absolute;
mod asymmetric;
mod binary;
mod cross_entropy;
mod dice;
mod focal;
mod mse;
mod uncertainty;

pub use absolute::{huber, mean_absolute_error};
pub use asymmetric::Asymmetric;
pub use binary::binary_cross_entropy;
pub use cross_entropy::{cross_entropy, soft_cross_entropy, soft_targets};
pub use dice::dice_cross_entropy;
pub use focal::focal;
pub use mse::mean_squared_error;
pub use uncertainty::UncertaintyWeights;
