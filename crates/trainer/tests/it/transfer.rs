//! Batches that are moved to the device ahead of their updates.

use burn::tensor::Device;
use serde_json::Value;
use updraft_data::{ImageBatch, Loader};
use updraft_testing::{alone, autodiff_devices};
use updraft_trainer::{
    BatchStream, Control, EpochStream, Event, Run, RunData, RunSettings, StepReport, StreamError,
    Transfer,
};

use crate::run::casting;
use crate::small::{Classifier, loader, new_run, optimizer, settings};

/// A loader of which every other batch is still prepared when a step asks for it.
struct Slow(Loader);

impl BatchStream<ImageBatch> for Slow {
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<ImageBatch> + '_> {
        Box::new(SlowEpoch { batches: BatchStream::epoch(&self.0, epoch), taken: 0 })
    }

    fn resume(
        &self,
        epoch: u64,
        state: &Value,
    ) -> Result<Box<dyn EpochStream<ImageBatch> + '_>, StreamError> {
        Ok(Box::new(SlowEpoch { batches: BatchStream::resume(&self.0, epoch, state)?, taken: 0 }))
    }

    fn batches(&self) -> usize {
        self.0.batches()
    }

    fn samples(&self) -> usize {
        self.0.samples()
    }

    fn batch(&self) -> usize {
        self.0.batch()
    }
}

struct SlowEpoch<'a> {
    batches: Box<dyn EpochStream<ImageBatch> + 'a>,
    taken: usize,
}

impl Iterator for SlowEpoch<'_> {
    type Item = Result<ImageBatch, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.taken += 1;
        self.batches.next()
    }
}

impl EpochStream<ImageBatch> for SlowEpoch<'_> {
    fn state(&self) -> Value {
        self.batches.state()
    }

    fn left_out(&self) -> usize {
        self.batches.left_out()
    }

    fn is_ready(&self) -> bool {
        self.taken.is_multiple_of(2)
    }
}

/// The bits of the model and the updates of a run of two epochs of six updates, which is stopped
/// after an update and resumed if one is given.
fn train(
    transfer: Transfer,
    stream: &dyn BatchStream<ImageBatch>,
    device: &Device,
    stop_after: Option<u64>,
) -> (Vec<u32>, Vec<StepReport>) {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = RunSettings { transfer, ..settings(folder.path(), 2) };
    settings.criterion = "train-loss".parse().unwrap();
    let mut reports = Vec::new();
    let mut run = |run: Run<Classifier>, stop_after: Option<u64>| {
        let data = RunData { train: stream, test: None };
        let watch = &mut |event: &Event, _: &Classifier| {
            let Event::Step(report) = event else { return Control::Continue };
            reports.push(report.clone());
            match Some(report.step + 1) == stop_after {
                true => Control::Stop,
                false => Control::Continue,
            }
        };
        run.train(&casting(), &settings, data, device, watch).unwrap()
    };
    let mut finished = run(new_run(device), stop_after);
    if stop_after.is_some() {
        let resumed =
            Run::resume(&finished.checkpoint, Classifier::new(device), optimizer().init());
        finished = run(resumed.unwrap(), None);
    }
    (finished.model.bits(), reports)
}

/// The updates during which a batch was moved for the next one.
fn uploads(reports: &[StepReport]) -> Vec<u64> {
    reports.iter().filter(|report| report.upload.is_some()).map(|report| report.step).collect()
}

#[test]
fn each_update_but_the_last_of_an_epoch_moves_the_batch_of_the_next_one() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let stream = loader(1);
    let (_, reports) = train(Transfer::WhenUsed, &stream, &device, None);
    assert!(uploads(&reports).is_empty(), "{reports:?}");
    let (_, reports) = train(Transfer::Ahead, &stream, &device, None);
    assert_eq!(uploads(&reports), [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]);
    for pair in reports.windows(2) {
        let Some(upload) = pair[0].upload else { continue };
        assert!(pair[0].at_us <= upload.at_us, "it begins before its update: {pair:?}");
        assert!(upload.at_us + upload.us <= pair[1].at_us, "it ends after its update: {pair:?}");
        let value = serde_json::to_value(&pair[0]).unwrap();
        assert_eq!(value["upload_at_us"].as_u64(), Some(upload.at_us), "{value}");
        assert_eq!(value["at_us"].as_u64(), Some(pair[0].at_us), "{value}");
    }
}

#[test]
fn a_batch_that_is_not_ready_is_moved_by_its_own_update_to_the_same_bits() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let (expected, _) = train(Transfer::WhenUsed, &loader(1), &device, None);
    // After the first batch of an epoch one was taken, so that the second is not ready; updates 1, 3
    // and 7, 9 then move a batch, and in the last one the epoch is over.
    let (found, reports) = train(Transfer::Ahead, &Slow(loader(1)), &device, None);
    assert_eq!(uploads(&reports), [1, 3, 7, 9]);
    assert!(found == expected, "other weights");
    for stop in [1, 2, 4, 8] {
        let (found, reports) = train(Transfer::Ahead, &Slow(loader(1)), &device, Some(stop));
        assert!(found == expected, "other weights after a stop at {stop}");
        let steps: Vec<u64> = reports.iter().map(|report| report.step).collect();
        assert_eq!(steps, (0..12).collect::<Vec<u64>>(), "a batch was left out or trained twice");
    }
}

#[test]
fn by_default_a_device_that_computes_later_is_given_its_batches_ahead() {
    for device in autodiff_devices() {
        let (_, reports) = train(Transfer::default(), &loader(1), &device, None);
        assert_eq!(!uploads(&reports).is_empty(), Transfer::Auto.is_ahead(&device), "{device:?}");
    }
}
