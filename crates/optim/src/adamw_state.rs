//! The state of `AdamW` for a parameter.

use burn::optim::{AdaptiveMomentumState, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};

use crate::count::Count;

/// The state of [`AdamW`](crate::AdamW) for a parameter; in a record that of burn's own
/// [`AdamW`](burn::optim::AdamW).
#[derive(Debug, Clone)]
pub struct AdamWState<const D: usize> {
    /// The mean of the gradients, in which later ones count more; its bias is not corrected.
    pub moment_1: Tensor<D>,
    /// The same of their squares.
    pub moment_2: Tensor<D>,
    pub(crate) count: Count,
}

impl<const D: usize> AdamWState<D> {
    /// The number of updates in the moments; reads the device if it decided about some, under
    /// [`controlled`](crate::controlled).
    #[must_use]
    pub fn time(&self) -> usize {
        self.count.read()
    }

    /// The state before the first update.
    pub(crate) fn new(gradient: &Tensor<D>) -> Self {
        let zeros = || gradient.zeros_like();
        Self { moment_1: zeros(), moment_2: zeros(), count: Count::Known(0) }
    }

    /// The same as burn has it.
    pub(crate) fn into_burns(self) -> burn::optim::AdamWState<D> {
        let Self { moment_1, moment_2, count } = self;
        let momentum = AdaptiveMomentumState::new(count.read(), moment_1, moment_2);
        burn::optim::AdamWState::new(momentum)
    }

    pub(crate) fn from_burns(state: burn::optim::AdamWState<D>) -> Self {
        let AdaptiveMomentumState { time, moment_1, moment_2, .. } = state.momentum;
        Self { moment_1, moment_2, count: Count::Known(time) }
    }

    /// The same on a device.
    pub(crate) fn moved_to(self, device: &Device) -> Self {
        Self {
            moment_1: self.moment_1.to_device(device),
            moment_2: self.moment_2.to_device(device),
            count: self.count.moved_to(device),
        }
    }
}

impl<const D: usize> RecordState for AdamWState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        self.clone().into_burns().state_flatten(prefix, out);
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let state = burn::optim::AdamWState::<D>::state_unflatten(prefix, src, device);
        state.map(Self::from_burns)
    }
}
