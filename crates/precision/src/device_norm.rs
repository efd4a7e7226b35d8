//! The norm of all gradients, and what an update does about it, without a read by the host.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::clip::square_sums;
#[cfg(feature = "cube")]
use crate::cube_gradient_parts::gradient_parts;

/// The global norm of gradients and what follows from it, still on the device; in f32.
#[derive(Debug, Clone)]
pub struct DeviceNorm {
    /// `[1]`: the norm without the loss scale, before clipping.
    pub norm: Tensor<1>,
    /// `[1]`: 1 if the norm is finite, else 0.
    pub is_finite: Tensor<1>,
    /// `[1]`: what the gradients are multiplied by, the inverse of the scale times
    /// `min(1, max_norm / norm)`; the inverse of the scale alone if the norm is not finite.
    pub factor: Tensor<1>,
}

/// The norm of gradients of a loss that was multiplied by `scale`, `[1]` in f32 on their device.
///
/// What [`LossScaler::unscale`](crate::LossScaler::unscale) decides on the host: the norm is not
/// finite if a gradient is not, or if the sum of all squares exceeds the range of f32. The
/// gradients stay as they are; `updraft_optim::controlled` multiplies them by the factor, or skips
/// the update.
///
/// On a GPU, with the feature of its backend, one launch reads each gradient once, and one more
/// computes all three numbers from the sums of their parts. Gradients that are not stored row by
/// row, or in a narrow dtype, take a launch more. Elsewhere, and for f64, operations on tensors
/// compute the same up to rounding. [`norm_reason`](crate::norm_reason()) returns why.
///
/// Sums are taken in f32, by parts and pairs, in an order that depends on the sizes alone.
///
/// # Panics
/// If `scale` is on another device than the gradients.
///
/// # Example
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::GradientsParams;
/// use burn::tensor::{Device, Tensor};
/// use updraft_precision::device_norm;
///
/// let device = Device::flex();
/// let layer = LinearConfig::new(2, 2).with_bias(false).init(&device);
/// let mut gradients = GradientsParams::new();
/// gradients.register(layer.weight.id, Tensor::<2>::full([2, 2], 8.0, &device));
/// let scale = Tensor::from_floats([4.0], &device);
/// let found = device_norm(&gradients, &layer, scale, Some(1.0));
/// assert_eq!(found.norm.into_scalar::<f32>(), 4.0);
/// assert_eq!(found.is_finite.into_scalar::<f32>(), 1.0);
/// // Clipped to a quarter, and divided by the scale.
/// assert_eq!(found.factor.into_scalar::<f32>(), 0.0625);
/// ```
#[must_use]
pub fn device_norm<M: Module>(
    gradients: &GradientsParams,
    module: &M,
    scale: Tensor<1>,
    max_norm: Option<f64>,
) -> DeviceNorm {
    let scale = scale.without_autodiff();
    #[cfg(feature = "cube")]
    if let Some(found) =
        gradient_parts(gradients, module).and_then(|parts| parts.norm(scale.clone(), max_norm))
    {
        return found;
    }
    let sum = square_sums(gradients, module).map_or_else(|| scale.zeros_like(), Tensor::sum);
    let norm = sum.sqrt() / scale.clone();
    let is_finite = norm.clone().is_finite();
    let one = norm.ones_like();
    let share = match max_norm {
        Some(most) => {
            let is_clipped = norm.clone().greater_scalar(most).bool_and(is_finite.clone());
            let share = one.full_like(most) / norm.clone();
            one.clone().mask_where(is_clipped, share)
        }
        None => one.clone(),
    };
    let is_finite = one.zeros_like().mask_where(is_finite, one);
    DeviceNorm { norm, is_finite, factor: share / scale }
}
