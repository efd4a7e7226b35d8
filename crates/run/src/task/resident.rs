//! Training and test data that stay on the device.

use burn::tensor::Device;
use updraft_data::{Collate, DeviceSamples, Loader, ResidentSet};
use updraft_trainer::{BatchStream, Converted, Tensors};

use super::workload::{StreamUse, Streams};
use crate::config::TrainPlan;
use crate::error::RunError;

/// A batch of a loader, or one that was selected on the device.
#[derive(Debug, Clone)]
pub(super) enum BatchFrom<H, D> {
    Loader(H),
    Device(D),
}

impl<H: PartialEq, D: Tensors> PartialEq for BatchFrom<H, D> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Loader(one), Self::Loader(two)) => one == two,
            (Self::Device(one), Self::Device(two)) => one.to_numbers() == two.to_numbers(),
            _ => false,
        }
    }
}

/// Streams of batches from loaders of `C`, or from samples `S` on the device.
type StreamsOf<C, S> = Streams<BatchFrom<<C as Collate>::Batch, <S as DeviceSamples>::Batch>>;

/// The batches of the training and of the test loader, selected on the device if the plan says so
/// and a run trains; `place` moves all samples of a loader there.
pub(super) fn streams<C: Collate, S: DeviceSamples + 'static>(
    [training, test]: [Loader<C>; 2],
    plan: &TrainPlan,
    used_for: StreamUse<'_>,
    place: fn(&C, C::Batch, &Device) -> S,
) -> Result<StreamsOf<C, S>, RunError> {
    let (Some(resident), StreamUse::Training { device, .. }) = (plan.resident, used_for) else {
        let read = |loader| Box::new(Converted::new(loader, BatchFrom::Loader));
        return Ok(Streams { train: read(training), test: read(test) });
    };
    let bytes = |loader: &Loader<C>| loader.collate().sample_bytes() * loader.samples();
    let bytes = bytes(&training) + bytes(&test);
    if bytes as u64 > resident.budget_mib.saturating_mul(1 << 20) {
        let reason = format!(
            "training and test data take {} MiB on the device, more than \
             `train.resident.budget_mib`: {}; raise it, or leave out `train.resident`",
            bytes.div_ceil(1 << 20),
            resident.budget_mib
        );
        return Err(RunError::Unusable { reason });
    }
    let keep = |loader: &Loader<C>| -> Result<Box<dyn BatchStream<_>>, RunError> {
        let set =
            ResidentSet::of(loader, bytes, |batch| Ok(place(loader.collate(), batch, device)))?;
        Ok(Box::new(Converted::new(set, BatchFrom::Device)))
    };
    Ok(Streams { train: keep(&training)?, test: keep(&test)? })
}
