//! The projection of the integrated stream from one stage to the next.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use updraft_conv::{Activation, ConvNormActivation, activate};

use crate::residual::conv_norm;

/// Projects the integrated stream to the channels and size of the next stage.
///
/// `norm(conv(relu(stream)))`, a strided 3×3 convolution. Without the rectifier the norm would
/// cancel every constant that the gate before adds to a channel, and that gate's last shift would
/// get no gradient.
#[derive(Module, Debug)]
pub(crate) struct Carry {
    pub(crate) project: ConvNormActivation,
}

impl Carry {
    pub(crate) fn new(channels: [usize; 2], stride: usize, device: &Device) -> Self {
        Self { project: conv_norm(channels, 3, stride, Activation::Identity, device) }
    }

    pub(crate) fn forward(&self, stream: Tensor<4>) -> Tensor<4> {
        self.project.forward(activate(stream, Activation::Relu))
    }
}
