//! The integrated stream's way from one stage to the next.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use crate::residual::ConvNorm;

/// Projects the integrated stream to the channels and size of the next stage.
///
/// `norm(conv(relu(stream)))`, a strided 3×3 convolution. Without the rectifier the norm would
/// cancel every constant that the gate before adds to a channel, and with it that gate's last
/// shift would never learn.
#[derive(Module, Debug)]
pub(crate) struct Carry {
    project: ConvNorm,
}

impl Carry {
    pub(crate) fn new(channels: [usize; 2], stride: usize, device: &Device) -> Self {
        Self { project: ConvNorm::new(channels, 3, stride, device) }
    }

    pub(crate) fn forward(&self, stream: Tensor<4>) -> Tensor<4> {
        self.project.forward(relu(stream))
    }
}
