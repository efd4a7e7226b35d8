//! A data set on the device, with batches selected there.

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::error::DataError;
use crate::source::{InMemoryTensors, Targets};
use crate::stream::{Collate, Draw, Loader, LoaderState, StreamConfig, StreamPlan};
use crate::tensor_batch::TargetBatch;

/// Samples on a device, from which batches are selected.
pub trait DeviceSamples {
    /// A batch of them.
    type Batch;

    /// The samples with these indices, in this order. If the samples were placed as
    /// [`Collate::undrawn`] returns them, `select` applies what is drawn for the epoch.
    fn select(&self, draws: Draws<'_>) -> Self::Batch;
}

/// One delivery of each sample of a batch, as [`Draw`] is of one.
#[derive(Debug, Clone, Copy)]
pub struct Draws<'a> {
    /// The seed of the stream.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// The indices of the samples in their set.
    pub indices: &'a [usize],
}

/// A data set on the device; batches are selected there, so that an epoch transfers only indices and
/// what [`DeviceSamples::select`] draws.
///
/// Order and batches are those of a [`Loader`] of the same set and configuration, and the states of
/// both resume each other.
#[derive(Debug, Clone)]
pub struct ResidentSet<S> {
    samples: S,
    plan: StreamPlan,
}

impl<S: DeviceSamples> ResidentSet<S> {
    /// Moves the samples of a loader to a device, if they take at most `limit` bytes there. `place`
    /// receives all of them in one batch, in the order of their indices.
    ///
    /// Workers, bytes in flight and the fault policy are ignored: everything is loaded at once.
    ///
    /// # Errors
    /// [`DataError::DeviceLimit`] for a set that is too large, [`DataError::RandomSamples`] for one
    /// whose samples are random while [`Collate::undrawn`] returns `None`, the error of a sample,
    /// and those of `place`.
    pub fn of<C: Collate>(
        loader: &Loader<C>,
        limit: usize,
        place: impl FnOnce(C::Batch) -> Result<S, DataError>,
    ) -> Result<Self, DataError> {
        Self::place(loader.collate(), loader.plan().clone(), limit, place)
    }

    fn place<C: Collate>(
        set: &C,
        plan: StreamPlan,
        limit: usize,
        place: impl FnOnce(C::Batch) -> Result<S, DataError>,
    ) -> Result<Self, DataError> {
        let samples = set.len();
        let bytes = set.sample_bytes().saturating_mul(samples);
        if bytes > limit {
            return Err(DataError::DeviceLimit { bytes, limit });
        }
        let undrawn = set.is_random().then(|| set.undrawn().ok_or(DataError::RandomSamples));
        let undrawn = undrawn.transpose()?;
        let set = undrawn.as_ref().unwrap_or(set);
        let (mut whole, mut scratch) = (set.begin(samples), C::Scratch::default());
        for index in 0..samples {
            set.add(Draw { seed: 0, epoch: 0, index }, &mut scratch, &mut whole)?;
        }
        Ok(Self { samples: place(whole)?, plan })
    }

    /// The batches of one epoch from its start.
    #[must_use]
    pub fn epoch(&self, epoch: u64) -> ResidentEpoch<'_, S> {
        self.start(self.plan.state(epoch), 0..self.plan.batches())
    }

    /// The batches of one epoch with these numbers, counted from 0. Numbers past the end have no
    /// batches.
    #[must_use]
    pub fn epoch_part(&self, epoch: u64, batches: Range<usize>) -> ResidentEpoch<'_, S> {
        let (part, state) = self.plan.part(epoch, batches);
        self.start(state, part)
    }

    /// The batches that remained when `state` was taken.
    ///
    /// # Errors
    /// As [`Loader::resume`].
    pub fn resume(&self, state: &LoaderState) -> Result<ResidentEpoch<'_, S>, DataError> {
        let next = self.plan.resume(state)?;
        Ok(self.start(state.clone(), next..self.plan.batches()))
    }

    /// Checks that [`resume`](Self::resume) accepts a state.
    ///
    /// # Errors
    /// As [`Loader::resume`].
    pub fn check_state(&self, state: &LoaderState) -> Result<(), DataError> {
        self.plan.resume(state).map(drop)
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

    fn start(&self, state: LoaderState, left: Range<usize>) -> ResidentEpoch<'_, S> {
        let order = self.plan.order(state.epoch);
        ResidentEpoch { set: self, order, left, state }
    }
}

/// Tensors on a device with the targets of each sample; `D` is one more than the axes of a sample.
#[derive(Debug, Clone)]
pub struct ResidentTensors<const D: usize> {
    inputs: Tensor<D>,
    targets: ResidentTargets,
}

#[derive(Debug, Clone)]
enum ResidentTargets {
    None,
    Classes(Tensor<1, Int>),
    /// `[samples, numbers]`.
    Values(Tensor<2>),
}

/// Some samples of [`ResidentTensors`], on their device.
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

impl<const D: usize> ResidentTensors<D> {
    /// Moves a set to a device if it takes at most `limit` bytes there.
    ///
    /// # Errors
    /// [`DataError::DeviceLimit`] for a set that is too large, [`DataError::BatchRank`] if `D` is
    /// not one more than the axes of a sample; as [`StreamConfig::validate`].
    pub fn load(
        set: &InMemoryTensors,
        config: StreamConfig,
        limit: usize,
        device: &Device,
    ) -> Result<ResidentSet<Self>, DataError> {
        let plan = StreamPlan::try_new(set, config)?;
        ResidentSet::place(set, plan, limit, |whole| {
            let targets = match (set.targets(), whole.targets()) {
                (Targets::Classes(_), _) => ResidentTargets::Classes(whole.classes(device)?),
                (Targets::Values { .. }, TargetBatch::Values { values, .. }) => {
                    let numbers = values.len() / whole.len();
                    let values = TensorData::new(values.clone(), [whole.len(), numbers]);
                    ResidentTargets::Values(Tensor::from_data(values, device))
                }
                _ => ResidentTargets::None,
            };
            Ok(Self { inputs: whole.input(device)?, targets })
        })
    }
}

impl<const D: usize> DeviceSamples for ResidentTensors<D> {
    type Batch = ResidentBatch<D>;

    fn select(&self, Draws { indices, .. }: Draws<'_>) -> ResidentBatch<D> {
        let places = index_tensor(indices, &self.inputs.device());
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

/// Indices as a tensor, `[indices]`, for [`Tensor::select`].
#[must_use]
pub fn index_tensor(indices: &[usize], device: &Device) -> Tensor<1, Int> {
    let places: Vec<i64> = indices.iter().map(|&index| index as i64).collect();
    Tensor::from_data(TensorData::new(places, [indices.len()]), device)
}

/// The batches of one epoch of a [`ResidentSet`], in order.
#[derive(Debug)]
pub struct ResidentEpoch<'a, S> {
    set: &'a ResidentSet<S>,
    order: Vec<usize>,
    left: Range<usize>,
    state: LoaderState,
}

impl<S> ResidentEpoch<'_, S> {
    /// The position of the stream: after the batch that was delivered last.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.state.clone()
    }
}

impl<S: DeviceSamples> Iterator for ResidentEpoch<'_, S> {
    type Item = S::Batch;

    fn next(&mut self) -> Option<S::Batch> {
        let plan = &self.set.plan;
        let next = self.left.next()?;
        let indices = &self.order[plan.samples_of(next)];
        let draws = Draws { seed: plan.config().seed, epoch: self.state.epoch, indices };
        let batch = self.set.samples.select(draws);
        self.state.position = plan.position_of(self.left.start);
        Some(batch)
    }
}
