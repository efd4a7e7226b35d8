//! Layers as burn modules, whose records are those of burn's own.

mod batch_norm;
mod block;
mod conv1d;
mod conv2d;
mod conv3d;
mod conv_transpose2d;
mod conv_transpose3d;
mod group_norm;
mod in_place;
mod initialize;
mod instance_norm;
mod norm_convolution;
mod padding;
mod pool;
mod pool3d;

pub use batch_norm::BatchNorm;
pub use block::ConvNormActivation;
pub use conv_transpose2d::ConvTranspose2d;
pub use conv_transpose3d::ConvTranspose3d;
pub use conv1d::Conv1d;
pub use conv2d::Conv2d;
pub use conv3d::Conv3d;
pub use group_norm::GroupNorm;
pub use initialize::initialize_parameters;
pub use instance_norm::InstanceNorm;
pub use norm_convolution::SampleNorm;
pub use pool::{AdaptiveAvgPool2d, AvgPool2d, MaxPool2d};
pub use pool3d::{AvgPool3d, AvgPool3dConfig, MaxPool3d, MaxPool3dConfig};
