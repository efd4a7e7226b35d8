//! Decisions about updates that the device makes, so that the host reads no number before them.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Bool, Device, FloatDType, Tensor};
use updraft_optim::DeviceControl;
use updraft_precision::{
    DeviceLossScale, DeviceNorm, DynamicScale, LossScale, LossScaler, device_norm,
};

use crate::guard::NonFinite;
use crate::settings::RunSettings;
use crate::step::StepSettings;

/// What the device decides about the updates between two reads: whether each is applied, the factor
/// of its gradients and its loss scale.
///
/// All of it is computed in f32, where the host computes in f64: factors of a loss scale that is a
/// power of two have the same bits, those of clipping differ by rounding. The host follows after the
/// read, and each group of updates begins with the numbers of the host.
pub(crate) struct Decisions {
    /// The scale of the host, for a scale that does not change.
    scaler: LossScaler,
    dynamic: Option<(DynamicScale, DeviceLossScale)>,
    /// Updates applied before the next one, in the run.
    applied: Tensor<1>,
    pulls: Option<Pulls>,
    can_skip: bool,
}

/// What the device decided about an update; all tensors have the shape `[1]`.
pub(crate) struct Decision {
    pub(crate) control: DeviceControl,
    /// The same as its `is_applied`.
    pub(crate) is_applied: Tensor<1, Bool>,
    /// The norm of the gradients without the loss scale, before clipping.
    norm: Tensor<1>,
    /// Whether it is finite, as 1 or 0.
    is_finite: Tensor<1>,
    /// The weight of the model in the average of the parameters, if one is kept.
    pub(crate) pull: Option<Tensor<1>>,
}

/// The numbers of a [`Decision`] after a read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decided {
    pub(crate) norm: f64,
    pub(crate) is_finite: bool,
    pub(crate) is_applied: bool,
}

/// The weights of the model in the next updates of an average, one of which each applied update
/// takes.
struct Pulls {
    /// `[updates]`.
    all: Tensor<1>,
    /// 0, 1, 2, …, `[updates]`.
    indices: Tensor<1>,
    /// Updates applied since the last read.
    applied: Tensor<1>,
}

/// Whether an update depends on the numbers of its batches: whether it may be skipped, or its
/// gradients have a factor.
pub(crate) fn are_needed(settings: &RunSettings) -> bool {
    settings.step.clip_norm.is_some()
        || settings.step.non_finite.skips()
        || settings.loss_scale != LossScale::None
}

impl Decisions {
    /// Before the first update after a read, with `applied` updates before it; `pulls` are the
    /// weights of the updates until the next read, if an average is kept.
    pub(crate) fn begin(
        device: &Device,
        settings: &RunSettings,
        scaler: LossScaler,
        applied: u64,
        pulls: Option<Vec<f64>>,
    ) -> Self {
        let device = device.clone().without_autodiff();
        let numbers = |values: &[f64]| {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            Tensor::<1>::from_floats(values.as_slice(), &device)
        };
        let dynamic = match settings.loss_scale {
            LossScale::Dynamic(dynamic) => {
                let state = scaler.state();
                let scale = numbers(&[state.scale]);
                let good_steps = numbers(&[state.good_steps as f64]);
                Some((dynamic, DeviceLossScale { scale, good_steps }))
            }
            LossScale::None | LossScale::Static { .. } => None,
        };
        let pulls = pulls.map(|pulls| Pulls {
            indices: numbers(&(0..pulls.len()).map(|index| index as f64).collect::<Vec<_>>()),
            all: numbers(&pulls),
            applied: numbers(&[0.0]),
        });
        let can_skip = scaler.is_dynamic() || settings.step.non_finite.skips();
        Self { scaler, dynamic, applied: numbers(&[applied as f64]), pulls, can_skip }
    }

    /// Whether the state of the model before an update has to be kept.
    pub(crate) fn can_skip(&self) -> bool {
        self.can_skip
    }

    /// The loss times the scale of the next update.
    pub(crate) fn scale_loss(&self, loss: Tensor<1>) -> Tensor<1> {
        match &self.dynamic {
            // A constant of the graph.
            Some((_, state)) => {
                let scale = state.scale.clone().cast(loss.dtype());
                loss * scale
            }
            None => self.scaler.scale_loss(loss),
        }
    }

    /// Decides about the next update, from its mean gradients and the losses of its batches, which
    /// are without an autodiff graph.
    pub(crate) fn decide<M: Module>(
        &mut self,
        (gradients, model): (&GradientsParams, &M),
        losses: Vec<Tensor<1>>,
        settings: &StepSettings,
    ) -> Decision {
        let scale = match &self.dynamic {
            Some((_, state)) => state.scale.clone(),
            None => self.applied.zeros_like().add_scalar(self.scaler.scale()),
        };
        let DeviceNorm { norm, is_finite, factor } =
            device_norm(gradients, model, scale, settings.clip_norm);
        // A loss that is not finite is not a reason to skip if it is ignored.
        let is_checked = settings.non_finite != NonFinite::Ignore;
        let losses = losses.into_iter().filter(|_| is_checked).map(as_finite);
        let is_loss_finite = losses.reduce(|all, one| all * one);
        let is_applied = match &is_loss_finite {
            Some(is_loss_finite) => is_finite.clone() * is_loss_finite.clone(),
            None => is_finite.clone(),
        };
        let applied = self.applied.clone();
        self.applied = applied.clone() + is_applied.clone();
        if let Some((settings, state)) = self.dynamic.take() {
            let before = (state.scale.clone(), state.good_steps.clone());
            let DeviceLossScale { scale, good_steps } = state.update(&is_finite, &settings);
            // The scale is not the reason for a loss that is not finite.
            let (scale, good_steps) = match is_loss_finite.map(as_flag) {
                Some(follows) => (
                    before.0.mask_where(follows.clone(), scale),
                    before.1.mask_where(follows, good_steps),
                ),
                None => (scale, good_steps),
            };
            self.dynamic = Some((settings, DeviceLossScale { scale, good_steps }));
        }
        let pull = self.pulls.as_mut().map(|pulls| pulls.next(&is_applied));
        let control = DeviceControl { factor, is_applied: is_applied.clone(), applied };
        Decision { control, is_applied: as_flag(is_applied), norm, is_finite, pull }
    }
}

impl Decision {
    /// The tensors from which [`Decided::of`] is read.
    pub(crate) fn tensors(&self) -> [Tensor<1>; 3] {
        [self.norm.clone(), self.is_finite.clone(), self.control.is_applied.clone()]
    }
}

impl Decided {
    /// The numbers of [`Decision::tensors`].
    pub(crate) fn of(read: &mut impl Iterator<Item = Vec<f64>>) -> Self {
        let mut next = || read.next().and_then(|read| read.first().copied()).unwrap_or(f64::NAN);
        Self { norm: next(), is_finite: next() > 0.5, is_applied: next() > 0.5 }
    }
}

impl Pulls {
    /// The weight of the next update, which counts if it is applied.
    fn next(&mut self, is_applied: &Tensor<1>) -> Tensor<1> {
        let is_other = self.indices.clone().not_equal(self.applied.clone().expand(self.all.dims()));
        self.applied = self.applied.clone() + is_applied.clone();
        // A sum of one number and zeros, which rounds nothing.
        self.all.clone().mask_fill(is_other, 0.0).sum()
    }
}

/// 1 if all numbers of a tensor are finite, else 0.
fn as_finite(numbers: Tensor<1>) -> Tensor<1> {
    numbers.is_finite().all().float().cast(FloatDType::F32)
}

fn as_flag(number: Tensor<1>) -> Tensor<1, Bool> {
    number.greater_scalar(0.5)
}

#[cfg(test)]
mod tests {
    use updraft_testing::alone;

    use super::*;

    #[test]
    fn applied_updates_take_the_weights_in_order_and_skipped_ones_none() {
        let _alone = alone();
        let device = Device::flex();
        let numbers = |values: &[f32]| Tensor::<1>::from_floats(values, &device);
        let mut pulls = Pulls {
            all: numbers(&[0.75, 0.5, 0.1]),
            indices: numbers(&[0.0, 1.0, 2.0]),
            applied: numbers(&[0.0]),
        };
        let expected = [(1.0, 0.75), (0.0, 0.5), (0.0, 0.5), (1.0, 0.5), (1.0, 0.1)];
        for (is_applied, expected) in expected {
            let pull: Vec<f32> = pulls.next(&numbers(&[is_applied])).into_data().iter().collect();
            assert_eq!(pull, [expected]);
        }
    }

    #[test]
    fn a_loss_is_finite_without_nan_and_infinities() {
        let _alone = alone();
        let device = Device::flex();
        for (value, expected) in
            [(0.0, 1.0), (-3e38, 1.0), (f32::NAN, 0.0), (f32::INFINITY, 0.0), (-f32::INFINITY, 0.0)]
        {
            let loss = Tensor::from_floats([value], &device);
            let found: Vec<f32> = as_finite(loss).into_data().iter().collect();
            assert_eq!(found, [expected], "{value}");
        }
    }
}
