//! A dynamic loss scale that stays on the device.

use burn::tensor::{DType, Device, Tensor};

use crate::loss_scale::{DynamicScale, LossScaleState};

/// A dynamic loss scale on the device, which changes without a read by the host; in f32.
///
/// It follows the rules of [`LossScaler`](crate::LossScaler), without the limit on skipped steps in
/// a row: for that the host reads [`DeviceNorm::is_finite`](crate::DeviceNorm::is_finite) of each
/// step when it is there, and passes it to
/// [`LossScaler::follow`](crate::LossScaler::follow), which then has the state for a checkpoint.
///
/// Scales are rounded to f32 after each change: with factors and bounds that are powers of two,
/// such as the defaults, they are those of the host. Good steps are counted up to 2²⁴, so that a
/// longer interval never ends.
///
/// # Example
/// ```
/// use burn::tensor::{Device, Tensor};
/// use updraft_precision::{DeviceLossScale, DynamicScale, LossScale, LossScaler};
///
/// let device = Device::flex();
/// let settings = DynamicScale::default();
/// let scaler = LossScaler::try_new(LossScale::Dynamic(settings))?;
/// let scale = DeviceLossScale::new(scaler.state(), &device);
/// let overflow = Tensor::from_floats([0.0], &device);
/// let scale = scale.update(&overflow, &settings);
/// assert_eq!(scale.scale.into_scalar::<f32>(), 32768.0);
/// # Ok::<(), updraft_precision::PrecisionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DeviceLossScale {
    /// `[1]`: the factor of the next step.
    pub scale: Tensor<1>,
    /// `[1]`: good steps since the factor last changed.
    pub good_steps: Tensor<1>,
}

impl DeviceLossScale {
    /// A scale that continues from the state of one on the host.
    #[must_use]
    pub fn new(state: LossScaleState, device: &Device) -> Self {
        let number = |number: f64| {
            Tensor::full([1], number, (&device.clone().without_autodiff(), DType::F32))
        };
        Self { scale: number(state.scale), good_steps: number(state.good_steps as f64) }
    }

    /// The scale after a step whose gradients were finite, if `is_finite`, `[1]`, is 1, or
    /// overflowed, if it is 0.
    #[must_use]
    pub fn update(self, is_finite: &Tensor<1>, settings: &DynamicScale) -> Self {
        let Self { scale, good_steps } = self;
        let is_finite = is_finite.clone().without_autodiff();
        let overflowed = is_finite.clone().lower_scalar(0.5);
        let good_steps = good_steps.add_scalar(1.0) * is_finite;
        let grows = good_steps.clone().greater_equal_scalar(settings.interval as f64);
        let grown = scale.clone().mul_scalar(settings.growth).clamp_max(settings.ceiling);
        let lowered = scale.clone().mul_scalar(settings.backoff).clamp_min(settings.floor);
        Self {
            scale: scale.mask_where(grows.clone(), grown).mask_where(overflowed, lowered),
            good_steps: good_steps.mask_fill(grows, 0.0),
        }
    }
}
