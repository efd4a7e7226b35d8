//! The classifier behind the last stage, and the pooling before it.

use burn::module::Module;
use burn::nn::pool::AdaptiveAvgPool2dConfig;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use updraft_conv::AdaptiveAvgPool2d;
use updraft_transformer::timed_linear;

/// Two linear layers with dropout before each.
#[derive(Module, Debug)]
pub(crate) struct Classifier {
    dropout: Dropout,
    pub(crate) hidden: Linear,
    pub(crate) output: Linear,
}

impl Classifier {
    pub(crate) fn new(features: usize, classes: usize, dropout: f64, device: &Device) -> Self {
        let hidden = features / 2;
        Self {
            dropout: DropoutConfig::new(dropout).init(),
            hidden: LinearConfig::new(features, hidden).init(device),
            output: LinearConfig::new(hidden, classes).init(device),
        }
    }

    pub(crate) fn forward(&self, features: Tensor<2>) -> Tensor<2> {
        let hidden = relu(timed_linear(&self.hidden, self.dropout.forward(features)));
        timed_linear(&self.output, self.dropout.forward(hidden))
    }
}

/// The mean over each feature map.
pub(crate) fn pool(maps: Tensor<4>) -> Tensor<2> {
    let [batch, channels, ..] = maps.dims();
    let pool = AdaptiveAvgPool2d::new(AdaptiveAvgPool2dConfig::new([1, 1]));
    pool.forward(maps).reshape([batch, channels])
}
