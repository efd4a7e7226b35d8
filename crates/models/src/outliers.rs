//! Outlier channels that do not change a network's outputs, to test quantization observers.

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};

use crate::error::OutlierError;
use crate::quantized::ConvBlock;
use crate::separable::{SeparableBlock, SeparableNet};

impl SeparableNet {
    /// Multiplies one channel of each block's input by `factor` without changing the outputs.
    ///
    /// The γ and β of the channel's batch normalization are multiplied by `factor`, and the
    /// depthwise kernel that reads the channel is divided by it. `ReLU` commutes with a positive
    /// factor, so the logits stay the same: bit for bit if `factor` is a power of two, up to
    /// rounding otherwise. The channel is the one with the largest γ, which is rarely dead in a
    /// trained network. In int8 with one scale per tensor, a range that includes this channel
    /// leaves few codes for the others.
    ///
    /// # Errors
    /// [`OutlierError`] if the factor is not positive and finite, or its reciprocal is not a normal
    /// number.
    ///
    /// # Source
    /// The inverse of cross-layer equalization: Nagel et al. 2019, arXiv:1906.04721, section 4.1.
    pub fn try_with_outliers(self, factor: f32) -> Result<Self, OutlierError> {
        if !(factor.is_finite() && factor > 0.0 && factor.recip().is_normal()) {
            return Err(OutlierError { factor });
        }
        let mut net = self;
        let SeparableNet { stem, blocks, .. } = &mut net;
        let mut producer = stem;
        for SeparableBlock { depthwise, pointwise } in blocks {
            scale_channel(producer, depthwise, factor);
            producer = pointwise;
        }
        Ok(net)
    }
}

/// Multiplies the channel of largest γ in `producer`'s output, and divides the kernel of it in
/// `consumer`.
fn scale_channel(producer: &mut ConvBlock, consumer: &mut ConvBlock, factor: f32) {
    let gamma: Vec<f32> = producer.norm.gamma.val().into_data().iter::<f32>().collect();
    let largest =
        (0..gamma.len()).fold(0, |best, at| if gamma[at] > gamma[best] { at } else { best });
    let along = |factor: f32| {
        let mut factors = vec![1.0; gamma.len()];
        factors[largest] = factor;
        factors
    };
    producer.norm.gamma = scaled(&producer.norm.gamma, along(factor));
    producer.norm.beta = scaled(&producer.norm.beta, along(factor));
    consumer.conv.weight = scaled(&consumer.conv.weight, along(factor.recip()));
}

/// A parameter multiplied along its first axis.
fn scaled<const D: usize>(param: &Param<Tensor<D>>, factors: Vec<f32>) -> Param<Tensor<D>> {
    let mut shape = [1; D];
    shape[0] = factors.len();
    param.clone().map(|values| {
        let factors = TensorData::new(factors, shape);
        let factors = Tensor::<D>::from_data(factors, (&values.device(), values.dtype()));
        values * factors
    })
}
