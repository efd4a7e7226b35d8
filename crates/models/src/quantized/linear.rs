//! A linear classifier whose weights training can fake-quantize.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, module};
use updraft_transformer::timed_linear;

use super::fake_quantizer::{FakeQuantizer, WeightBits};

/// A linear layer, with the record of burn's at `linear` if it has no quantizer.
#[derive(Module, Debug)]
pub(crate) struct QuantizedLinear {
    pub(crate) linear: Linear,
    weights: Option<FakeQuantizer>,
}

impl QuantizedLinear {
    /// `has_quantizer` rounds weights to eight bits, one step for each output.
    pub(crate) fn new([input, output]: [usize; 2], has_quantizer: bool, device: &Device) -> Self {
        let weights =
            has_quantizer.then(|| FakeQuantizer::of_weights(output, WeightBits::Int8, device));
        Self { linear: LinearConfig::new(input, output).init(device), weights }
    }

    pub(crate) fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let Some(quantizer) = &self.weights else { return timed_linear(&self.linear, x) };
        // burn keeps weights as [input, output]; steps belong to the first axis.
        let weights = quantizer.weights(self.linear.weight.val().transpose()).transpose();
        module::linear(x, weights, self.linear.bias.as_ref().map(Param::val))
    }

    pub(crate) fn multiply_adds(&self) -> usize {
        self.linear.weight.lazy_shape().num_elements()
    }
}
