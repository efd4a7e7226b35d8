//! Channels made to stand out without changing what a network computes: a trial for observers.

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use updraft_conv::ConvNormActivation;

use crate::error::OutlierError;
use crate::separable::{SeparableBlock, SeparableNet};

impl SeparableNet {
    /// The same function, with one channel of each tensor that a block reads `factor` times as
    /// large: the γ and β of its batch norm are multiplied, the kernel that reads it is divided.
    ///
    /// A rectifier lets a positive factor through, so that the answers are the same, to the bit for
    /// a power of two. The channel is the one of greatest γ, which is alive in a trained network.
    /// In eight bits, with one scale a tensor, a range that holds it leaves few codes to the other
    /// channels.
    ///
    /// # Errors
    /// [`OutlierError`] for a factor that is not finite and positive.
    ///
    /// # Source
    /// The inverse of cross-layer equalization: Nagel et al. 2019, arXiv:1906.04721, section 4.1.
    pub fn try_with_outliers(self, factor: f32) -> Result<Self, OutlierError> {
        if !(factor.is_finite() && factor > 0.0 && factor.recip().is_normal()) {
            return Err(OutlierError { factor });
        }
        let mut net = self;
        let SeparableNet { stem, blocks, .. } = &mut net;
        let mut before = stem;
        for SeparableBlock { depthwise, pointwise } in blocks {
            scale_channel(before, depthwise, factor);
            before = pointwise;
        }
        Ok(net)
    }
}

/// Makes the channel of greatest γ larger where it is given, and smaller where it is read.
fn scale_channel(giving: &mut ConvNormActivation, reading: &mut ConvNormActivation, factor: f32) {
    let gamma: Vec<f32> = giving.norm.gamma.val().into_data().iter::<f32>().collect();
    let greatest =
        (0..gamma.len()).fold(0, |best, at| if gamma[at] > gamma[best] { at } else { best });
    let along = |factor: f32| {
        let mut factors = vec![1.0; gamma.len()];
        factors[greatest] = factor;
        factors
    };
    giving.norm.gamma = scaled(&giving.norm.gamma, along(factor));
    giving.norm.beta = scaled(&giving.norm.beta, along(factor));
    reading.conv.weight = scaled(&reading.conv.weight, along(factor.recip()));
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
