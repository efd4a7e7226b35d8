//! Decoded images kept in memory within a budget, or in a file that is checked.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use updraft_data::{
    CacheUse, CachedImages, Cue, DataError, FileImages, GeneratedConfig, GeneratedImages, Image,
    ImageSource, InMemoryImages, Loader, LoaderConfig, Order, Resized, Workers,
};

use crate::files::contents;

/// Generated images that count how often they are drawn.
struct Counted {
    images: GeneratedImages,
    reads: AtomicUsize,
}

impl Counted {
    fn new(images: usize) -> Arc<Self> {
        let config = GeneratedConfig::new(Cue::Both, images).with_size(16, 16);
        let images = GeneratedImages::try_new(config).unwrap();
        Arc::new(Self { images, reads: AtomicUsize::new(0) })
    }

    fn reads(&self) -> usize {
        self.reads.swap(0, Ordering::SeqCst)
    }
}

impl ImageSource for Counted {
    fn len(&self) -> usize {
        self.images.len()
    }

    fn classes(&self) -> &[String] {
        self.images.classes()
    }

    fn label(&self, index: usize) -> usize {
        self.images.label(index)
    }

    fn name(&self, index: usize) -> String {
        self.images.name(index)
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.images.read(index)
    }

    fn fingerprint(&self) -> String {
        self.images.fingerprint()
    }
}

#[test]
fn a_memory_cache_keeps_what_fits_and_changes_no_bit() {
    let source = Counted::new(40);
    let expected = contents(&*source);
    source.reads();
    for (budget_images, again) in [(40, 0), (25, 15), (0, 40)] {
        let budget = budget_images * 16 * 16 * 3;
        let cached = CachedImages::try_new(source.clone(), None, budget).unwrap();
        assert_eq!(contents(&cached), expected);
        assert_eq!((source.reads(), cached.used_bytes()), (40, budget));
        assert_eq!(contents(&cached), expected);
        assert_eq!(source.reads(), again, "budget of {budget_images} images");
    }
}

#[test]
fn threads_that_fill_a_memory_cache_stay_within_its_budget() {
    let source = Counted::new(64);
    let budget = 30 * 8 * 8 * 3 + 5;
    let cached = CachedImages::try_new(source, Some((8, 8)), budget).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for index in 0..64 {
                    assert_eq!(cached.read(index).unwrap().size(), (8, 8));
                    assert!(cached.used_bytes() <= budget);
                }
            });
        }
    });
    assert_eq!(cached.used_bytes(), budget - 5);
}

#[test]
fn a_file_holds_what_memory_would_and_is_decoded_once() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("cache/images");
    let source = Counted::new(150);
    let memory = InMemoryImages::decode(&*source, Some((8, 12)), 2, &mut |_| {}).unwrap();
    source.reads();
    let open = || FileImages::open(&*source, Some((8, 12)), &path, 2, &mut |_| {}).unwrap();
    let (images, used) = open();
    assert_eq!(used, CacheUse::Built);
    assert_eq!(source.reads(), 150);
    assert_eq!(contents(&images), contents(&memory));
    let kept = CachedImages::try_new(source.clone(), Some((8, 12)), 0).unwrap();
    let resized = Resized::try_new(source.clone(), 8, 12).unwrap();
    let fingerprints = [memory.fingerprint(), kept.fingerprint(), resized.fingerprint()];
    assert_eq!(fingerprints, [(); 3].map(|()| images.fingerprint()));
    assert_eq!(images.classes(), memory.classes());
    assert_eq!((images.size(), images.name(7)), ((8, 12), memory.name(7)));
    let (again, used) = open();
    assert_eq!((used, source.reads()), (CacheUse::Reused, 0));
    assert_eq!(contents(&again), contents(&memory));
    // A run may continue with the other kind.
    let config =
        || LoaderConfig::new(16).with_order(Order::Shuffled).with_workers(Workers::Count(2));
    let from_file = Loader::try_new(Arc::new(again), config()).unwrap();
    let from_memory = Loader::try_new(Arc::new(memory), config()).unwrap();
    let mut epoch = from_file.epoch(1);
    epoch.next().unwrap().unwrap();
    let rest: Vec<_> = from_memory.resume(&epoch.state()).unwrap().map(Result::unwrap).collect();
    assert_eq!(epoch.map(Result::unwrap).collect::<Vec<_>>(), rest);
}

#[test]
fn a_damaged_file_is_rebuilt_with_a_reason() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("images");
    let source = Counted::new(40);
    let open = |size| FileImages::open(&*source, Some(size), &path, 1, &mut |_| {}).unwrap();
    let expected = contents(&open((8, 8)).0);
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[100] ^= 1;
    let cases = [
        (flipped, "does not fit its checksum"),
        (whole[..whole.len() - 1].to_vec(), "does not fit its checksum"),
        (whole[..30].to_vec(), "is truncated"),
        (b"something else, long enough to have a header and a footer".to_vec(), "is no cache"),
    ];
    for (bytes, reason) in cases {
        fs::write(&path, bytes).unwrap();
        let (images, used) = open((8, 8));
        let CacheUse::Rebuilt { reason: given } = used else { panic!("{used:?}") };
        assert!(given.contains(reason) || given.contains("claims an index"), "{given}");
        assert_eq!(contents(&images), expected);
    }
    let CacheUse::Rebuilt { reason } = open((8, 9)).1 else { panic!() };
    assert!(reason.ends_with("was made of another source or for another size"), "{reason}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "nothing half-written is left");
}

#[test]
fn a_folder_that_cannot_be_written_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let source = Counted::new(16);
    let error = FileImages::open(&*source, None, file.join("cache"), 1, &mut |_| {}).unwrap_err();
    assert!(matches!(error, DataError::Write { .. }), "{error}");
}
