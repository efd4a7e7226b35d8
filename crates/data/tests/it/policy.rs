//! What a loader does about bad samples: raise, skip up to a maximum, or quarantine.

use std::fs;
use std::sync::Arc;

use updraft_data::{
    DataError, FaultPolicy, ImageBatch, ImageFolder, Loader, LoaderConfig, LoaderState, Order,
    Quarantined, Workers,
};

use crate::files::{folder, jpeg, message};

const WORKERS: [usize; 4] = [0, 1, 2, 8];

/// Twenty images, of which 3, 4 and 11 are damaged.
fn images() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> =
        (0..20).map(|at| (format!("a/{at:02}.jpg"), jpeg(at as u8))).collect();
    for bad in [3, 4, 11] {
        files[bad].1.truncate(40);
    }
    files
}

fn source(files: &[(String, Vec<u8>)]) -> (tempfile::TempDir, Arc<ImageFolder>) {
    let files: Vec<_> = files.iter().map(|(name, bytes)| (&**name, bytes.clone())).collect();
    let root = folder(&files);
    let source = Arc::new(ImageFolder::open(root.path()).unwrap());
    (root, source)
}

fn config(order: Order, faults: FaultPolicy, workers: usize) -> LoaderConfig {
    LoaderConfig::new(2)
        .with_order(order)
        .with_seed(5)
        .with_faults(faults)
        .with_workers(Workers::Count(workers))
}

fn indices(batches: &[ImageBatch]) -> Vec<Vec<usize>> {
    batches.iter().map(|batch| batch.indices().to_vec()).collect()
}

#[test]
fn a_skipped_sample_leaves_the_others_where_they_were() {
    let (_root, bad) = source(&images());
    let whole: Vec<_> = (0..20).map(|at| (format!("a/{at:02}.jpg"), jpeg(at))).collect();
    let (_other, good) = source(&whole);
    for order in [Order::Sequential, Order::Shuffled] {
        let raise = config(order, FaultPolicy::Raise, 0);
        let expected: Vec<ImageBatch> =
            Loader::try_new(good.clone(), raise).unwrap().epoch(0).map(Result::unwrap).collect();
        let mut expected = indices(&expected);
        for batch in &mut expected {
            batch.retain(|index| ![3, 4, 11].contains(index));
        }
        expected.retain(|batch| !batch.is_empty());
        for workers in WORKERS {
            let skip = config(order, FaultPolicy::Skip { at_most: 3 }, workers);
            let loader = Loader::try_new(bad.clone(), skip).unwrap();
            let mut epoch = loader.epoch(0);
            let batches: Vec<ImageBatch> = epoch.by_ref().map(Result::unwrap).collect();
            assert_eq!(indices(&batches), expected, "{order:?}, {workers} workers");
            assert!(batches.iter().all(|batch| batch.planes().len() == 576 * batch.len()));
            let mut skipped: Vec<usize> = epoch.skipped().iter().map(|f| f.index).collect();
            skipped.sort_unstable();
            assert_eq!(skipped, [3, 4, 11]);
            assert!(message(&epoch.skipped()[0].error).contains("the JPEG is truncated"));
        }
    }
}

#[test]
fn the_last_fault_that_is_allowed_does_not_end_its_batch() {
    let (_root, source) = source(&images());
    // Samples 3 and 4 are damaged, 5 is not.
    let mut config = config(Order::Sequential, FaultPolicy::Skip { at_most: 2 }, 0);
    config.stream.batch = 6;
    let mut epoch = Loader::try_new(source, config).unwrap().epoch(0);
    assert_eq!(epoch.next().unwrap().unwrap().indices(), [0, 1, 2, 5]);
}

#[test]
fn one_fault_too_many_ends_the_epoch_after_the_same_batch_for_any_number_of_workers() {
    let (_root, source) = source(&images());
    for workers in WORKERS {
        let skip = config(Order::Sequential, FaultPolicy::Skip { at_most: 2 }, workers);
        let loader = Loader::try_new(source.clone(), skip).unwrap();
        let items: Vec<_> = loader.epoch(0).collect();
        assert_eq!(items.len(), 6, "{workers} workers");
        let text = message(items[5].as_ref().unwrap_err());
        assert!(text.starts_with("more than 2 samples of the epoch cannot be delivered"), "{text}");
        assert!(
            text.contains("11.jpg` (sample 11) cannot be decoded: the JPEG is truncated"),
            "{text}"
        );
    }
}

#[test]
fn a_batch_without_good_samples_is_passed_over() {
    let mut files = images();
    files[2].1.clear();
    let (_root, source) = source(&files);
    let skip = config(Order::Sequential, FaultPolicy::Skip { at_most: 4 }, 0);
    let loader = Loader::try_new(source, skip).unwrap();
    let batches: Vec<ImageBatch> = loader.epoch(0).map(Result::unwrap).collect();
    assert_eq!(indices(&batches)[..3], [vec![0, 1], vec![5], vec![6, 7]]);
}

#[test]
fn resuming_counts_what_was_left_out_before() {
    let (_root, source) = source(&images());
    let skip = |at_most| {
        let config = config(Order::Sequential, FaultPolicy::Skip { at_most }, 0);
        Loader::try_new(source.clone(), config).unwrap()
    };
    let loader = skip(2);
    let mut epoch = loader.epoch(0);
    for _ in 0..4 {
        epoch.next().unwrap().unwrap();
    }
    let state: LoaderState =
        serde_json::from_str(&serde_json::to_string(&epoch.state()).unwrap()).unwrap();
    assert_eq!((state.position, state.skipped), (8, 2));
    let rest: Vec<_> = loader.resume(&state).unwrap().collect();
    assert!(matches!(rest[1], Err(DataError::TooManyFaults { at_most: 2, .. })), "{rest:?}");
    // The policy is no part of the stream: a run that ended here can continue with a larger
    // maximum.
    let rest: Result<Vec<_>, _> = skip(3).resume(&state).unwrap().collect();
    assert_eq!(indices(&rest.unwrap())[..2], [vec![8, 9], vec![10]]);
}

#[test]
fn an_unreadable_first_sample_is_skipped_too() {
    let mut files = images();
    files[0].1.clear();
    let (_root, source) = source(&files);
    let open = |at_most, workers| {
        let config = config(Order::Sequential, FaultPolicy::Skip { at_most }, workers);
        Loader::try_new(source.clone(), config)
    };
    let batches: Vec<ImageBatch> = open(4, 2).unwrap().epoch(0).map(Result::unwrap).collect();
    assert_eq!(batches[0].indices(), [1]);
    let raise = config(Order::Sequential, FaultPolicy::Raise, 0);
    let error = Loader::try_new(source.clone(), raise).unwrap_err();
    assert!(message(&error).contains("00.jpg` (sample 0) cannot be decoded: the file is empty"));
}

#[test]
fn quarantine_writes_each_bad_sample_down_once() {
    let (root, source) = source(&images());
    let file = root.path().join("bad.jsonl");
    let faults = FaultPolicy::Quarantine { file: file.clone(), at_most: 5 };
    let loader = Loader::try_new(source, config(Order::Sequential, faults, 2)).unwrap();
    for epoch in 0..3 {
        assert_eq!(loader.epoch(epoch).map(|batch| batch.unwrap().len()).sum::<usize>(), 17);
    }
    let listed = Quarantined::read(&file).unwrap();
    assert_eq!(listed.iter().map(|line| line.index).collect::<Vec<_>>(), [3, 4, 11]);
    assert!(listed[0].name.ends_with("03.jpg"), "{}", listed[0].name);
    assert!(listed[0].cause.contains("cannot be decoded: the JPEG is truncated"));
    fs::write(&file, "{\"epoch\":0}\n").unwrap();
    let error = Quarantined::read(&file).unwrap_err();
    assert!(message(&error).contains("bad.jsonl` line 1 is not a quarantine entry"), "{error}");
}

#[test]
fn a_quarantine_that_cannot_be_written_is_known_before_the_first_batch() {
    let (root, source) = source(&images());
    let file = root.path().join("nowhere/bad.jsonl");
    let faults = FaultPolicy::Quarantine { file: file.clone(), at_most: 5 };
    let error = Loader::try_new(source, config(Order::Sequential, faults, 0)).unwrap_err();
    assert!(matches!(&error, DataError::Open { path, .. } if *path == file), "{error}");
}

#[test]
fn a_folder_that_vanishes_during_the_epoch_is_reported_by_its_files() {
    let files: Vec<_> = (0..20).map(|at| (format!("a/{at:02}.jpg"), jpeg(at))).collect();
    for workers in [0, 2] {
        let (root, source) = source(&files);
        // One byte in flight: workers cannot have read the whole folder before it goes.
        let config = config(Order::Sequential, FaultPolicy::Raise, workers).with_prefetch_bytes(1);
        let loader = Loader::try_new(source, config).unwrap();
        let mut epoch = loader.epoch(0);
        epoch.next().unwrap().unwrap();
        fs::remove_dir_all(root.path().join("a")).unwrap();
        let error = epoch.find_map(Result::err).unwrap();
        assert!(matches!(error, DataError::Read { .. }), "{error}");
        assert!(epoch.next().is_none());
    }
}
