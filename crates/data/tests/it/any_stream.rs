//! Streams of random settings: any number of workers and any cache delivers the same bits, and a
//! stream resumes exactly from any state.

use std::sync::Arc;

use proptest::prelude::*;
use updraft_data::{
    CachedImages, Cue, DataError, DecodeError, FaultPolicy, FileImages, GeneratedConfig,
    GeneratedImages, HorizontalFlip, Image, ImageBatch, ImageSource, LastBatch, Loader,
    LoaderConfig, LoaderState, MixUp, Order, Place, Translate, Workers,
};

/// Generated images of which some cannot be read.
struct Faulty {
    drawn: GeneratedImages,
    bad: Vec<usize>,
}

impl ImageSource for Faulty {
    fn len(&self) -> usize {
        self.drawn.len()
    }

    fn classes(&self) -> &[String] {
        self.drawn.classes()
    }

    fn label(&self, index: usize) -> usize {
        self.drawn.label(index)
    }

    fn name(&self, index: usize) -> String {
        self.drawn.name(index)
    }

    fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
        if self.bad.contains(&(index % 7)) {
            let place = Place { name: self.name(index), index: Some(index) };
            return Err(DataError::Decode { place, cause: DecodeError::Empty });
        }
        self.drawn.read(index)
    }

    fn fingerprint(&self) -> String {
        format!("{} without {:?}", self.drawn.fingerprint(), self.bad)
    }
}

#[derive(Debug, Clone)]
struct Case {
    images: usize,
    bad: Vec<usize>,
    batch: usize,
    order: Order,
    last: LastBatch,
    seed: u64,
    epoch: u64,
    is_augmented: bool,
    is_mixed: bool,
    prefetch_bytes: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let order = prop_oneof![Just(Order::Shuffled), Just(Order::Sequential)];
    let last = prop_oneof![Just(LastBatch::Keep), Just(LastBatch::Drop)];
    let bytes = prop_oneof![Just(0_usize), Just(5_000), Just(1 << 26)];
    (
        (16..40_usize, proptest::collection::vec(0..7_usize, 0..3), 1..11_usize),
        (order, last, any::<u64>(), 0..4_u64),
        (any::<bool>(), any::<bool>(), bytes),
    )
        .prop_map(|((images, bad, batch), (order, last, seed, epoch), more)| {
            let (is_augmented, is_mixed, prefetch_bytes) = more;
            Case {
                images,
                bad,
                batch,
                order,
                last,
                seed,
                epoch,
                is_augmented,
                is_mixed,
                prefetch_bytes,
            }
        })
}

impl Case {
    fn source(&self) -> Arc<dyn ImageSource> {
        let config = GeneratedConfig::new(Cue::Both, self.images).with_size(16, 16);
        let drawn = GeneratedImages::try_new(config).expect("valid settings");
        Arc::new(Faulty { drawn, bad: self.bad.clone() })
    }

    fn loader(&self, source: Arc<dyn ImageSource>, workers: usize) -> Loader {
        let mut config = LoaderConfig::new(self.batch)
            .with_order(self.order)
            .with_last(self.last)
            .with_seed(self.seed)
            .with_faults(FaultPolicy::Skip { at_most: 40 })
            .with_prefetch_bytes(self.prefetch_bytes)
            .with_workers(Workers::Count(workers));
        if self.is_augmented {
            config = config.with_augment(vec![
                Arc::new(HorizontalFlip),
                Arc::new(Translate { max_pixels: 2 }),
            ]);
        }
        if self.is_mixed {
            config = config.with_mix_up(MixUp { alpha: 0.4 });
        }
        Loader::try_new(source, config).expect("valid settings")
    }
}

fn batches(epoch: updraft_data::Epoch) -> Vec<ImageBatch> {
    epoch.collect::<Result<_, _>>().expect("no more faults than are allowed")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_is_the_same_for_any_workers_cache_and_position_to_resume_from(
        case in case(),
        workers in 1..6_usize,
        later in 0..6_usize,
        taken in 0..50_usize,
        budget in 0..40_000_usize,
    ) {
        let plain = case.loader(case.source(), 0);
        let whole = batches(plain.epoch(case.epoch));
        prop_assert_eq!(&batches(case.loader(case.source(), workers).epoch(case.epoch)), &whole);

        // What fits is kept in memory, in the first epoch or in an earlier one.
        let cached = CachedImages::try_new(case.source(), None, budget).expect("valid settings");
        let cached = case.loader(Arc::new(cached), workers);
        for _ in 0..2 {
            prop_assert_eq!(&batches(cached.epoch(case.epoch)), &whole);
        }
        if case.bad.is_empty() {
            let dir = tempfile::tempdir().expect("temporary folder");
            let file = dir.path().join("cache");
            let made = FileImages::open(&*case.source(), None, file, workers, &mut |_| {});
            let (kept, _) = made.expect("every image can be read");
            let kept = case.loader(Arc::new(kept), later);
            prop_assert_eq!(&batches(kept.epoch(case.epoch)), &whole);
        }

        let taken = taken % (whole.len() + 1);
        let before = case.loader(case.source(), workers);
        let mut epoch = before.epoch(case.epoch);
        for expected in &whole[..taken] {
            prop_assert_eq!(&epoch.next().expect("a batch").expect("delivered"), expected);
        }
        let text = serde_json::to_string(&epoch.state()).expect("a state");
        let state: LoaderState = serde_json::from_str(&text).expect("the same");
        let rest = case.loader(case.source(), later).resume(&state).expect("its own state");
        prop_assert_eq!(&batches(rest)[..], &whole[taken..]);
    }
}
