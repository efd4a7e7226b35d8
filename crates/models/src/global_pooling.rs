//! Global pooling of feature maps.

use burn::nn::pool::AdaptiveAvgPool2dConfig;
use burn::tensor::Tensor;
use updraft_conv::AdaptiveAvgPool2d;

/// The mean of each feature map, from `[batch, channels, height, width]` to `[batch, channels]`.
pub(crate) fn means(maps: Tensor<4>) -> Tensor<2> {
    let [batch, channels, ..] = maps.dims();
    let pool = AdaptiveAvgPool2d::new(AdaptiveAvgPool2dConfig::new([1, 1]));
    pool.forward(maps).reshape([batch, channels])
}

/// The maximum of each feature map, from `[batch, channels, height, width]` to `[batch, channels]`.
pub(crate) fn maxima(maps: Tensor<4>) -> Tensor<2> {
    let [batch, channels, height, width] = maps.dims();
    maps.reshape([batch, channels, height * width]).max_dim(2).reshape([batch, channels])
}

/// One weight per feature map, in a shape that broadcasts over feature maps.
pub(crate) fn per_map(weights: Tensor<2>) -> Tensor<4> {
    let [batch, channels] = weights.dims();
    weights.reshape([batch, channels, 1, 1])
}
