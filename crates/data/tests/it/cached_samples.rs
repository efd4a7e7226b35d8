//! Samples in a cache file: the same samples, written once, never read where damaged.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use updraft_data::{
    CacheUse, DataError, FileSamples, InMemorySamples, Loader, Pixels, Raster, Sample,
    SampleSource, SampleTarget,
};

use crate::files::message;
use crate::samples::{batches, config, loader, volumes};

/// Samples that count how often they are read.
struct Counted {
    samples: InMemorySamples,
    reads: AtomicUsize,
}

impl SampleSource for Counted {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn name(&self, index: usize) -> String {
        self.samples.name(index)
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.samples.read(index)
    }

    fn fingerprint(&self) -> String {
        self.samples.fingerprint()
    }
}

/// Rasters of every type and targets of every kind, of several sizes.
fn mixed() -> InMemorySamples {
    let raster = |channels, sides: &[usize], pixels: Pixels<'static>| {
        Raster::try_new(channels, sides, pixels).unwrap()
    };
    let floats = vec![1.5_f32, f32::MIN_POSITIVE, -0.0, 3e38];
    let samples = [
        (raster(1, &[2, 2], floats.into()), SampleTarget::None),
        (raster(3, &[1, 2], vec![1_u8, 2, 3, 4, 5, 255].into()), SampleTarget::Class(7)),
        (
            raster(2, &[2, 1, 1], vec![1_u16, 256, 65_535, 0].into()),
            SampleTarget::Values(Cow::Owned(vec![0.5, -2.0, 1e-30])),
        ),
        (
            raster(1, &[1, 1], vec![9_u8].into()),
            SampleTarget::Image(raster(1, &[1, 3], vec![1.0_f32, 2.0, 3.0].into())),
        ),
        (
            raster(1, &[1, 2], vec![4_u8, 5].into()),
            SampleTarget::Labels(raster(1, &[1, 2], vec![300_u16, 2].into())),
        ),
    ];
    let named = samples
        .into_iter()
        .enumerate()
        .map(|(at, (raster, target))| (format!("sample {at}"), Sample { raster, target }));
    InMemorySamples::try_new(named.collect()).unwrap()
}

#[test]
fn a_file_holds_the_samples_and_is_written_once() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("cache/samples");
    let source = Counted { samples: mixed(), reads: AtomicUsize::new(0) };
    for workers in [0, 1, 3] {
        std::fs::remove_file(&path).ok();
        let mut seen = Vec::new();
        let (_, used) =
            FileSamples::open(&source, &path, workers, &mut |progress| seen.push(progress.done))
                .unwrap();
        assert_eq!((used, source.reads.swap(0, Ordering::Relaxed)), (CacheUse::Built, 5));
        assert_eq!(seen, [1, 5]);
    }
    let (file, used) = FileSamples::open(&source, &path, 2, &mut |_| {}).unwrap();
    assert_eq!((used, source.reads.load(Ordering::Relaxed)), (CacheUse::Reused, 0));
    assert_eq!((file.len(), file.fingerprint()), (5, source.fingerprint()));
    for index in 0..5 {
        assert_eq!(file.name(index), source.name(index));
        assert_eq!(file.read(index).unwrap(), source.read(index).unwrap());
    }
    let other = volumes(2);
    let (_, used) = FileSamples::open(&other, &path, 2, &mut |_| {}).unwrap();
    let CacheUse::Rebuilt { reason } = used else { panic!("{used:?}") };
    assert!(reason.ends_with("was made of another source or for another size"), "{reason}");
}

#[test]
fn a_run_continues_with_samples_from_a_file() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("samples");
    let (file, _) = FileSamples::open(&volumes(18), &path, 2, &mut |_| {}).unwrap();
    let from_file = Loader::from_samples(Arc::new(file), config()).unwrap();
    let expected = batches(&loader(2), 1);
    let mut epoch = from_file.epoch(1);
    assert_eq!(epoch.next().unwrap().unwrap(), expected[0]);
    let rest: Vec<_> = loader(0).resume(&epoch.state()).unwrap().map(Result::unwrap).collect();
    assert_eq!(rest, expected[1..]);
}

#[test]
fn a_fault_keeps_the_file_from_being_written() {
    struct Broken(InMemorySamples);

    impl SampleSource for Broken {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn name(&self, index: usize) -> String {
            self.0.name(index)
        }

        fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
            assert!(index < 2, "broken");
            self.0.read(index)
        }

        fn fingerprint(&self) -> String {
            self.0.fingerprint()
        }
    }

    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("samples");
    let error = FileSamples::open(&Broken(mixed()), &path, 3, &mut |_| {}).unwrap_err();
    assert!(message(&error).contains("sample 2"), "{error}");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0, "nothing half-written is left");
}
