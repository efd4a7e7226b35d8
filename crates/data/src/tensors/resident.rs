//! A data set on the device, with batches selected there.

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::DataError;
use crate::source::{InMemoryTensors, Targets};
use crate::stream::{Collate, Draw, LoaderState, StreamConfig, StreamPlan};
use crate::tensor_batch::TargetBatch;

/// A data set on the device; batches are selected there, so that an epoch transfers only indices.
///
/// `D` is one more than the axes of a sample.
/// Order and batches are those of a [`Loader`](crate::Loader) of the same set and configuration.
#[derive(Debug, Clone)]
pub struct ResidentSet<const D: usize> {
    inputs: Tensor<D>,
    targets: ResidentTargets,
    plan: StreamPlan,
    device: Device,
}

#[derive(Debug, Clone)]
enum ResidentTargets {
    None,
    Classes(Tensor<1, Int>),
    /// `[samples, numbers]`.
    Values(Tensor<2>),
}

/// Some samples of a [`ResidentSet`], on its device.
#[derive(Debug, Clone)]
pub struct ResidentBatch<const D: usize> {
    /// `[samples, …]`.
    pub inputs: Tensor<D>,
    /// The class of each sample, `[samples]`, if the set has classes.
    pub classes: Option<Tensor<1, Int>>,
    /// The target numbers of each sample in one row, `[samples, numbers]`, if the set has them.
    pub values: Option<Tensor<2>>,
    /// The index of each sample in the set.
    pub indices: Vec<usize>,
}

impl<const D: usize> ResidentSet<D> {
    /// Moves a set to a device if it takes at most `limit` bytes there.
    ///
    /// Workers, bytes in flight and the fault policy are ignored: everything is loaded at once.
    ///
    /// # Errors
    /// [`DataError::DeviceLimit`] for a set that is too large, [`DataError::BatchRank`] if `D` is
    /// not one more than the axes of a sample; as [`StreamConfig::validate`].
    pub fn load(
        set: &InMemoryTensors,
        config: StreamConfig,
        limit: usize,
        device: &Device,
    ) -> Result<Self, DataError> {
        let samples = set.len();
        let bytes = set.sample_bytes().saturating_mul(samples);
        if bytes > limit {
            return Err(DataError::DeviceLimit { bytes, limit });
        }
        let plan = StreamPlan::try_new(set, config)?;
        let mut whole = set.begin(samples);
        for index in 0..samples {
            set.add(Draw { seed: 0, epoch: 0, index }, &mut (), &mut whole)?;
        }
        let targets = match (set.targets(), whole.targets()) {
            (Targets::Classes(_), _) => ResidentTargets::Classes(whole.classes(device)?),
            (Targets::Values { .. }, TargetBatch::Values { values, .. }) => {
                let numbers = values.len() / samples;
                let values = TensorData::new(values.clone(), [samples, numbers]);
                ResidentTargets::Values(Tensor::from_data(values, device))
            }
            _ => ResidentTargets::None,
        };
        let inputs = whole.input(device)?;
        Ok(Self { inputs, targets, plan, device: device.clone() })
    }

    /// The batches of one epoch from its start.
    #[must_use]
    pub fn epoch(&self, epoch: u64) -> ResidentEpoch<'_, D> {
        self.start(self.plan.state(epoch), 0)
    }

    /// The batches that remained when `state` was taken.
    ///
    /// # Errors
    /// As [`Loader::resume`](crate::Loader::resume).
    pub fn resume(&self, state: &LoaderState) -> Result<ResidentEpoch<'_, D>, DataError> {
        let next = self.plan.resume(state)?;
        Ok(self.start(state.clone(), next))
    }

    /// Batches in an epoch.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.plan.batches()
    }

    /// Samples in the set.
    #[must_use]
    pub const fn samples(&self) -> usize {
        self.plan.samples()
    }

    /// Samples in a full batch.
    #[must_use]
    pub const fn batch(&self) -> usize {
        self.plan.config().batch
    }

    fn start(&self, state: LoaderState, next: usize) -> ResidentEpoch<'_, D> {
        let order = self.plan.order(state.epoch);
        ResidentEpoch { set: self, order, next, state }
    }

    fn select(&self, indices: &[usize]) -> ResidentBatch<D> {
        let places: Vec<i64> = indices.iter().map(|&index| index as i64).collect();
        let places: Tensor<1, Int> =
            Tensor::from_data(TensorData::new(places, [indices.len()]), &self.device);
        let (mut classes, mut values) = (None, None);
        match &self.targets {
            ResidentTargets::None => {}
            ResidentTargets::Classes(all) => classes = Some(all.clone().select(0, places.clone())),
            ResidentTargets::Values(all) => values = Some(all.clone().select(0, places.clone())),
        }
        let inputs = self.inputs.clone().select(0, places);
        ResidentBatch { inputs, classes, values, indices: indices.to_vec() }
    }
}

/// The batches of one epoch of a [`ResidentSet`], in order.
#[derive(Debug)]
pub struct ResidentEpoch<'a, const D: usize> {
    set: &'a ResidentSet<D>,
    order: Vec<usize>,
    next: usize,
    state: LoaderState,
}

impl<const D: usize> ResidentEpoch<'_, D> {
    /// The position of the stream: after the batch that was delivered last.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.state.clone()
    }
}

impl<const D: usize> Iterator for ResidentEpoch<'_, D> {
    type Item = ResidentBatch<D>;

    fn next(&mut self) -> Option<ResidentBatch<D>> {
        let plan = &self.set.plan;
        if self.next >= plan.batches() {
            return None;
        }
        let batch = self.set.select(&self.order[plan.samples_of(self.next)]);
        self.next += 1;
        self.state.position = plan.position_of(self.next);
        Some(batch)
    }
}
