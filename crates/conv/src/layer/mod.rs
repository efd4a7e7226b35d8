//! Layers as burn modules, whose records are those of burn's own.

mod batch_norm;
mod block;
mod conv1d;
mod conv2d;
mod observe;
mod padding;
mod pool;

pub use batch_norm::BatchNorm;
pub use block::ConvNormActivation;
pub use conv1d::Conv1d;
pub use conv2d::Conv2d;
pub use observe::{ObservedConvolution, observe_convolutions};
pub use pool::{AdaptiveAvgPool2d, AvgPool2d, MaxPool2d};
