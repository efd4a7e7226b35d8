//! Sets kept on the device deliver what a loader delivers.

use std::sync::Arc;

use updraft_data::{
    Collate, Cue, DataError, DeviceSamples, Draws, GeneratedConfig, GeneratedImages,
    HorizontalFlip, ImageBatch, InMemoryTensors, Loader, LoaderConfig, MixUp, Order, ResidentSet,
    ResidentTensors, StreamConfig, TargetBatch, Targets, index_tensor,
};
use updraft_testing::devices;

fn set(targets: Targets) -> InMemoryTensors {
    let bytes: Vec<u8> = (0..45_u32 * 6).map(|at| (at * 31 % 256) as u8).collect();
    InMemoryTensors::from_bytes(45, &[2, 3], bytes, targets)
        .and_then(|set| set.with_normalization(0.4, 0.2))
        .unwrap()
}

fn classes() -> Targets {
    Targets::Classes((0..45).map(|at| at * 7 % 10).collect())
}

fn config() -> StreamConfig {
    StreamConfig::new(8).with_order(Order::Shuffled).with_seed(4)
}

#[test]
fn a_resident_set_delivers_the_batches_of_a_loader() {
    for device in devices() {
        let resident =
            ResidentTensors::<3>::load(&set(classes()), config(), 1 << 20, &device).unwrap();
        let loader = Loader::collating(set(classes()), config()).unwrap();
        assert_eq!(resident.batches(), 6);
        for epoch in 0..2 {
            let mut count = 0;
            for (there, here) in resident.epoch(epoch).zip(loader.epoch(epoch)) {
                let here = here.unwrap();
                assert_eq!(there.indices, here.indices());
                let inputs: Vec<f32> = there.inputs.into_data().try_to_vec().unwrap();
                assert_eq!(inputs, here.values());
                let TargetBatch::Classes(expected) = here.targets() else { panic!() };
                let got: Vec<i64> =
                    there.classes.unwrap().into_data().convert::<i64>().try_to_vec().unwrap();
                assert!(got.iter().zip(expected).all(|(got, expected)| *got == *expected as i64));
                assert!(there.values.is_none());
                count += 1;
            }
            assert_eq!(count, 6);
        }
    }
}

#[test]
fn a_part_of_an_epoch_of_a_resident_set_has_the_batches_of_a_loader() {
    for device in devices() {
        let resident =
            ResidentTensors::<3>::load(&set(classes()), config(), 1 << 20, &device).unwrap();
        let loader = Loader::collating(set(classes()), config()).unwrap();
        for part in [0..2, 2..5, 5..6, 4..9, 6..7] {
            let there: Vec<_> =
                resident.epoch_part(1, part.clone()).map(|batch| batch.indices).collect();
            let here = loader.epoch_part(1, part.clone());
            let here: Vec<_> = here.map(|batch| batch.unwrap().indices().to_vec()).collect();
            assert_eq!(there, here, "{part:?}");
        }
    }
}

#[test]
fn states_go_from_a_loader_to_a_resident_set_and_back() {
    for device in devices() {
        let resident =
            ResidentTensors::<3>::load(&set(classes()), config(), 1 << 20, &device).unwrap();
        let loader = Loader::collating(set(classes()), config()).unwrap();
        let mut epoch = loader.epoch(3);
        epoch.next().unwrap().unwrap();
        epoch.next().unwrap().unwrap();
        let state = epoch.state();
        let rest: Vec<usize> = epoch.flat_map(|batch| batch.unwrap().indices().to_vec()).collect();
        let mut there = resident.resume(&state).unwrap();
        let first = there.next().unwrap().indices;
        assert_eq!(first, rest[..8]);
        let back = loader.resume(&there.state()).unwrap();
        let back: Vec<usize> = back.flat_map(|batch| batch.unwrap().indices().to_vec()).collect();
        assert_eq!(back, rest[8..]);
        let other =
            ResidentTensors::<3>::load(&set(Targets::None), config(), 1 << 20, &device).unwrap();
        assert!(matches!(other.resume(&state), Err(DataError::ForeignState { .. })));
    }
}

#[test]
fn target_numbers_come_along_and_a_set_too_large_is_refused() {
    for device in devices() {
        let targets =
            Targets::Values { shape: vec![2], values: (0..90_u8).map(f32::from).collect() };
        let set = set(targets);
        let resident = ResidentTensors::<3>::load(&set, config(), 1 << 20, &device).unwrap();
        let batch = resident.epoch(0).next().unwrap();
        let values: Vec<f32> = batch.values.unwrap().into_data().try_to_vec().unwrap();
        for (pair, &index) in values.chunks(2).zip(&batch.indices) {
            assert_eq!(pair, [2.0 * index as f32, 2.0 * index as f32 + 1.0]);
        }
        let bytes = set.sample_bytes() * 45;
        let error = ResidentTensors::<3>::load(&set, config(), bytes - 1, &device).unwrap_err();
        assert!(matches!(error, DataError::DeviceLimit { .. }), "{error}");
        assert!(ResidentTensors::<3>::load(&set, config(), bytes, &device).is_ok());
    }
}

/// Images on a device, by their labels.
struct Labels(burn::tensor::Tensor<1, burn::tensor::Int>);

impl DeviceSamples for Labels {
    type Batch = Vec<i64>;

    fn select(&self, Draws { indices, .. }: Draws<'_>) -> Vec<i64> {
        let places = index_tensor(indices, &self.0.device());
        let labels = self.0.clone().select(0, places).into_data().convert::<i64>();
        labels.try_to_vec().unwrap()
    }
}

#[test]
fn the_samples_of_any_loader_stay_on_the_device_unless_they_are_augmented() {
    let loader = |change: fn(LoaderConfig) -> LoaderConfig| {
        let images = GeneratedImages::try_new(GeneratedConfig::new(Cue::Color, 20)).unwrap();
        let config = LoaderConfig::new(8).with_order(Order::Shuffled).with_seed(3);
        Loader::try_new(Arc::new(images), change(config)).unwrap()
    };
    let plain = loader(|config| config);
    for device in devices() {
        let place = |batch: ImageBatch| Ok(Labels(batch.to_device(&device).1));
        let set = ResidentSet::of(&plain, usize::MAX, place).unwrap();
        for epoch in 0..2 {
            let expected: Vec<Vec<i64>> = plain
                .epoch(epoch)
                .map(|batch| batch.unwrap().labels().iter().map(|&label| label as i64).collect())
                .collect();
            assert_eq!(set.epoch(epoch).collect::<Vec<_>>(), expected);
        }
        let changes: [fn(LoaderConfig) -> LoaderConfig; 2] = [
            |config| config.with_augment(vec![Arc::new(HorizontalFlip)]),
            |config| config.with_mix_up(MixUp { alpha: 0.2 }),
        ];
        for change in changes {
            let refused = ResidentSet::of(&loader(change), usize::MAX, place);
            assert!(matches!(refused.err(), Some(DataError::RandomSamples)));
        }
    }
}
