//! Networks of inverted residuals: `EfficientNet` and `MobileNetV2`.

mod backbone;
mod efficient_net;
mod error;
mod inverted_residual;
mod mobile_net;
mod squeeze_excitation;
mod stochastic_depth;

pub use efficient_net::{EfficientNet, EfficientNetConfig};
pub use error::MobileConfigError;
pub use mobile_net::{MobileActivation, MobileNet, MobileNetConfig};
