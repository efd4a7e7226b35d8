//! The stream of batches: the same for any number of workers, resumable at every batch.

use std::sync::Arc;

use updraft_data::{
    Cue, DataError, FaultPolicy, GeneratedConfig, GeneratedImages, HorizontalFlip, ImageBatch,
    ImageSource, InMemoryImages, LastBatch, Loader, LoaderConfig, LoaderState, Order, Part,
    Relabeled, StreamConfig, Subset, Translate, Workers,
};

const WORKERS: [usize; 4] = [0, 1, 2, 8];

fn images(count: usize) -> Arc<dyn ImageSource> {
    let config = GeneratedConfig::new(Cue::Both, count).with_size(16, 16);
    let drawn = GeneratedImages::try_new(config).unwrap();
    Arc::new(InMemoryImages::decode(&drawn, None, 2, &mut |_| {}).unwrap())
}

fn config() -> LoaderConfig {
    LoaderConfig::new(7)
        .with_order(Order::Shuffled)
        .with_seed(11)
        .with_augment(vec![Arc::new(HorizontalFlip), Arc::new(Translate { max_pixels: 3 })])
}

fn loader(workers: usize) -> Loader {
    Loader::try_new(images(60), config().with_workers(Workers::Count(workers))).unwrap()
}

fn batches(epoch: updraft_data::Epoch) -> Vec<ImageBatch> {
    epoch.collect::<Result<_, _>>().unwrap()
}

#[test]
fn any_number_of_workers_delivers_the_same_bits() {
    let expected = batches(loader(0).epoch(3));
    assert_eq!(expected.len(), 9);
    assert_eq!(expected[8].len(), 4);
    for workers in WORKERS {
        assert_eq!(batches(loader(workers).epoch(3)), expected, "{workers} workers");
    }
}

#[test]
fn the_parts_of_a_batch_together_are_the_batch_and_resume_with_any_number_of_parts() {
    let whole = batches(loader(0).epoch(3));
    for count in [1, 2, 3, 4, 5, 7] {
        let part = |index| {
            let config = config().with_part(Part { index, count });
            Loader::try_new(images(60), config.with_workers(Workers::Count(index % 2))).unwrap()
        };
        let parts: Vec<Loader> = (0..count).map(part).collect();
        let mut epochs: Vec<_> = parts.iter().map(|part| part.epoch(3)).collect();
        for (at, whole) in whole.iter().enumerate() {
            // The last batch has four samples: with more parts, some have none.
            let delivered: Vec<ImageBatch> =
                epochs.iter_mut().filter_map(|epoch| epoch.next().transpose().unwrap()).collect();
            assert_eq!(delivered.len(), count.min(whole.len()), "batch {at} in {count} parts");
            let planes: Vec<f32> =
                delivered.iter().flat_map(|part| part.planes().to_vec()).collect();
            assert!(planes == whole.planes(), "batch {at} in {count} parts");
            let indices: Vec<usize> =
                delivered.iter().flat_map(|part| part.indices().to_vec()).collect();
            assert_eq!(indices, whole.indices());
            if at + 1 < 9 {
                let state = epochs[0].state();
                assert!(epochs.iter().all(|epoch| epoch.state() == state));
                let next = loader(0).resume(&state).unwrap().next().unwrap().unwrap();
                assert!(next.planes() == batches(loader(0).epoch(3))[at + 1].planes());
            }
        }
        assert!(epochs.iter_mut().all(|epoch| epoch.next().is_none()));
        let most = parts.iter().map(Loader::batches).max();
        assert_eq!(most, Some(9), "{count} parts");
        let config = config().with_last(LastBatch::Drop);
        let part = Part { index: count - 1, count };
        let dropping = Loader::try_new(images(60), config.with_part(part)).unwrap();
        assert_eq!(dropping.batches(), 8);
    }
}

#[test]
fn parts_are_refused_that_no_batch_has_or_whose_samples_may_be_skipped() {
    let refused = |config: LoaderConfig| match Loader::try_new(images(60), config) {
        Err(DataError::Setting { name, .. }) => name,
        other => panic!("not refused: {other:?}"),
    };
    assert_eq!(refused(config().with_part(Part { index: 0, count: 8 })), "batch");
    assert_eq!(refused(config().with_part(Part { index: 0, count: 0 })), "part.count");
    assert_eq!(refused(config().with_part(Part { index: 2, count: 2 })), "part.index");
    let skips = config().with_faults(FaultPolicy::Skip { at_most: 1 });
    assert_eq!(refused(skips.with_part(Part { index: 0, count: 2 })), "faults");
}

#[test]
fn every_sample_comes_once_and_epochs_differ_in_order_and_augmentation() {
    let loader = loader(0);
    let indices = |epoch| -> Vec<usize> {
        batches(loader.epoch(epoch)).iter().flat_map(|b| b.indices().to_vec()).collect()
    };
    let mut first = indices(0);
    assert_ne!(first, indices(1));
    first.sort_unstable();
    assert_eq!(first, (0..60).collect::<Vec<_>>());
    let sequential = config().with_order(Order::Sequential);
    let loader = Loader::try_new(images(60), sequential).unwrap();
    let (one, other) = (batches(loader.epoch(0)), batches(loader.epoch(1)));
    assert_eq!(one[0].indices(), other[0].indices());
    assert_ne!(one[0].planes(), other[0].planes());
}

#[test]
fn a_part_of_an_epoch_is_its_batches_and_no_others() {
    let whole = batches(loader(0).epoch(5));
    for workers in WORKERS {
        let loader = loader(workers);
        for start in 0..=whole.len() {
            for end in start..=whole.len() {
                let part = loader.epoch_part(5, start..end);
                assert_eq!(part.size_hint(), (0, Some(end - start)));
                assert_eq!(batches(part), whole[start..end], "{start}..{end}, {workers} workers");
            }
        }
        let past = whole.len() - 1..whole.len() + 5;
        assert_eq!(batches(loader.epoch_part(5, past)), whole[whole.len() - 1..]);
        assert_eq!(batches(loader.epoch_part(5, whole.len() + 1..whole.len() + 2)), []);
        // The state after a batch of a part resumes the epoch there.
        let mut part = loader.epoch_part(5, 3..5);
        part.next().unwrap().unwrap();
        assert_eq!(batches(loader.resume(&part.state()).unwrap()), whole[4..]);
        // So does that before its first batch.
        let state = loader.epoch_part(5, 3..5).state();
        assert_eq!(batches(loader.resume(&state).unwrap()), whole[3..]);
    }
}

#[test]
fn resuming_at_any_batch_gives_exactly_the_rest() {
    let whole = batches(loader(0).epoch(5));
    for taken in 0..=whole.len() {
        let before = loader(2);
        let mut epoch = before.epoch(5);
        for _ in 0..taken {
            epoch.next().unwrap().unwrap();
        }
        let text = serde_json::to_string(&epoch.state()).unwrap();
        let state: LoaderState = serde_json::from_str(&text).unwrap();
        for workers in WORKERS {
            let rest = batches(loader(workers).resume(&state).unwrap());
            assert_eq!(rest, whole[taken..], "{taken} taken, {workers} workers");
        }
    }
}

#[test]
fn a_state_of_another_stream_or_inside_a_batch_is_refused() {
    let state = loader(0).epoch(0).state();
    let other = Loader::try_new(images(60), config().with_seed(12)).unwrap();
    assert!(matches!(other.resume(&state), Err(DataError::ForeignState { setting: "seed", .. })));
    let settings = |seed| config().with_seed(seed);
    let mut other_batch = settings(11);
    other_batch.stream.batch = 8;
    for (images, config, message) in [
        (images(60), settings(12), "seed 11, this loader has seed 12"),
        (images(60), other_batch, "batch 7, this loader has batch 8"),
        (images(61), settings(11), "samples 60, this loader has samples 61"),
        (
            images(60),
            settings(11).with_order(Order::Sequential),
            "order shuffled, this loader has order sequential",
        ),
        (
            images(60),
            settings(11).with_last(LastBatch::Drop),
            "last batch keep, this loader has last batch drop",
        ),
    ] {
        let other = Loader::try_new(images, config).unwrap();
        let error = other.resume(&state).unwrap_err();
        assert_eq!(other.check_state(&state).unwrap_err().to_string(), error.to_string());
        let start = "the loader state was taken with";
        let of_data = if message.starts_with("samples") { "the data and " } else { "" };
        let remedy = format!("resume with {of_data}the settings of the run");
        assert_eq!(error.to_string(), format!("{start} {message}; {remedy}"));
    }
    let augment = Loader::try_new(images(60), config().with_augment(Vec::new())).unwrap();
    let setting = "sample settings fingerprint";
    assert!(
        matches!(augment.resume(&state), Err(DataError::ForeignState { setting: s, .. }) if s == setting)
    );
    let reordered: Vec<usize> = (0..60).rev().collect();
    let other = Subset::try_new(images(60), reordered).unwrap();
    let other = Loader::try_new(Arc::new(other), config()).unwrap();
    let message = other.resume(&state).unwrap_err().to_string();
    assert!(message.ends_with("; resume with the data of the run"), "{message}");
    let setting = "source fingerprint";
    assert!(
        matches!(other.resume(&state), Err(DataError::ForeignState { setting: s, .. }) if s == setting)
    );
    for position in [1, 6, 8, 61, u64::MAX] {
        let state = LoaderState { position, ..state.clone() };
        let error = loader(0).resume(&state).unwrap_err();
        assert!(matches!(error, DataError::StatePosition { .. }), "{position}: {error}");
        assert!(matches!(loader(0).check_state(&state), Err(DataError::StatePosition { .. })));
    }
    loader(0).check_state(&state).unwrap();
}

#[test]
fn an_incomplete_last_batch_is_kept_or_dropped() {
    let kept = Loader::try_new(images(60), config()).unwrap();
    let dropped = Loader::try_new(images(60), config().with_last(LastBatch::Drop)).unwrap();
    assert_eq!((kept.batches(), dropped.batches()), (9, 8));
    let state = format!("{:?}", kept.epoch(0));
    assert!(state.contains("position: 0, skipped: 0, seed: 11, batch: 7"), "{state}");
    assert_eq!(batches(dropped.epoch(0)), batches(kept.epoch(0))[..8]);
}

#[test]
fn settings_of_a_stream_replace_all_of_them_at_once() {
    let stream = StreamConfig::new(3).with_seed(4).with_order(Order::Shuffled);
    assert_eq!(LoaderConfig::new(7).with_stream(stream.clone()).stream, stream);
}

#[test]
fn few_bytes_in_flight_still_deliver_everything() {
    let tight = config().with_workers(Workers::Count(4)).with_prefetch_bytes(0);
    let loader = Loader::try_new(images(60), tight).unwrap();
    assert_eq!(batches(loader.epoch(3)), batches(self::loader(0).epoch(3)));
}

#[test]
fn dropping_an_epoch_early_ends_its_workers() {
    let images = images(60);
    for _ in 0..50 {
        let config = config().with_workers(Workers::Count(8));
        let loader = Loader::try_new(Arc::clone(&images), config).unwrap();
        let mut epoch = loader.epoch(0);
        epoch.next().unwrap().unwrap();
        drop((epoch, loader));
        // A worker that still ran would hold the images.
        assert_eq!(Arc::strong_count(&images), 1);
    }
}

#[test]
fn subsets_and_relabeled_sets_keep_images_and_change_labels() {
    let all = images(32);
    let subset = Subset::try_new(all.clone(), vec![30, 2]).unwrap();
    assert_eq!(subset.read(0).unwrap(), all.read(30).unwrap());
    assert_eq!(subset.label(0), all.label(30));
    assert!(matches!(
        Subset::try_new(all.clone(), vec![32]),
        Err(DataError::OutOfRange { index: 32, samples: 32 })
    ));
    let mut classes = all.classes().to_vec();
    classes.reverse();
    let relabeled = Relabeled::try_new(all.clone(), &classes).unwrap();
    assert_eq!(relabeled.label(3), classes.len() - 1 - all.label(3));
    let error = Relabeled::try_new(all, &classes[1..]).err().unwrap();
    assert!(error.to_string().starts_with("unknown classes `blue stripes`; expected"), "{error}");
}

#[test]
fn a_batch_ahead_changes_neither_the_stream_nor_its_states() {
    let loader = loader(2);
    let expected = batches(loader.epoch(3));
    let mut converted = 0;
    let mut plain = loader.epoch(3);
    let mut ahead = loader.epoch(3).ahead(|batch| {
        converted += 1;
        batch
    });
    assert_eq!(ahead.state(), plain.state());
    for (taken, expected) in expected.iter().enumerate() {
        assert_eq!(&ahead.next().unwrap().unwrap(), expected);
        plain.next().unwrap().unwrap();
        assert_eq!(ahead.state(), plain.state());
        let on_its_way = usize::from(taken + 1 < 9);
        assert_eq!(ahead.waits().batches, (taken + 1 + on_its_way) as u64);
    }
    assert!(ahead.next().is_none());
    drop(ahead);
    assert_eq!(converted, 9);
}
