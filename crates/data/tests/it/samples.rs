//! Samples of any number of channels, in two and three dimensions: delivered, resumed, refused.
// tidy: long because the kinds of samples and of targets share their fixtures.

use std::borrow::Cow;
use std::sync::Arc;

use updraft_data::{
    Augment, Axis, CachedSamples, Collate, ColorJitter, Cue, DataError, FaultPolicy, Flip,
    GeneratedConfig, GeneratedImages, HorizontalFlip, ImageSamples, ImageSource, InMemorySamples,
    Loader, LoaderConfig, LoaderState, NormalizeChannels, Order, Pixels, Quarantined,
    RandomResizedCrop, Raster, Rotate, Sample, SampleCollate, SampleConfig, SampleSource,
    SampleSubset, SampleTarget, TargetBatch, TensorBatch, Translate, TranslateDepth, Workers, Zoom,
};

use crate::files::message;

/// Volumes of two channels of u16, each with a mask.
pub(crate) fn volumes(count: usize) -> InMemorySamples {
    let (sides, values) = ([3, 6, 5], 3 * 6 * 5);
    let sample = |number: usize| {
        let pixels: Vec<u16> =
            (0..2 * values).map(|at| ((number * 7919 + at * 131) % 65_536) as u16).collect();
        let labels: Vec<u8> = (0..values).map(|at| ((number + at) % 4) as u8).collect();
        Sample {
            raster: Raster::try_new(2, &sides, pixels).unwrap(),
            target: SampleTarget::Labels(Raster::try_new(1, &sides, labels).unwrap()),
        }
    };
    let samples = (0..count).map(|number| (format!("volume {number}"), sample(number)));
    InMemorySamples::try_new(samples.collect()).unwrap()
}

fn transforms() -> Vec<Arc<dyn Augment>> {
    vec![
        Arc::new(Flip { axis: Axis::Depth }),
        Arc::new(Flip { axis: Axis::Height }),
        Arc::new(HorizontalFlip),
        Arc::new(TranslateDepth { max_slices: 1 }),
        Arc::new(Translate { max_pixels: 2 }),
        Arc::new(Rotate { max_degrees: 40.0 }),
        Arc::new(Zoom { min_factor: 0.8, max_factor: 1.3 }),
        Arc::new(RandomResizedCrop { min_area: 0.4, max_stretch: 1.3 }),
    ]
}

pub(crate) fn config() -> SampleConfig {
    let normalize = NormalizeChannels { mean: vec![0.5, 0.25], std: vec![0.2, 0.5] };
    SampleConfig::new(4)
        .with_order(Order::Shuffled)
        .with_seed(5)
        .with_augment(transforms())
        .with_normalize(normalize)
}

pub(crate) fn loader(workers: usize) -> Loader<SampleCollate> {
    let config = config().with_workers(Workers::Count(workers));
    Loader::from_samples(Arc::new(volumes(18)), config).unwrap()
}

pub(crate) fn batches(loader: &Loader<SampleCollate>, epoch: u64) -> Vec<TensorBatch> {
    loader.epoch(epoch).map(Result::unwrap).collect()
}

fn in_memory(samples: Vec<Sample<'static>>) -> Arc<InMemorySamples> {
    let named = samples.into_iter().enumerate().map(|(at, sample)| (format!("item {at}"), sample));
    Arc::new(InMemorySamples::try_new(named.collect()).unwrap())
}

fn refused(samples: Vec<Sample<'static>>, config: SampleConfig) -> String {
    message(&Loader::from_samples(in_memory(samples), config).map(drop).unwrap_err())
}

fn picture(channels: usize, target: SampleTarget<'static>) -> Sample<'static> {
    let pixels: Vec<u8> = (0..channels * 6).map(|at| (at * 9) as u8).collect();
    Sample { raster: Raster::try_new(channels, &[2, 3], pixels).unwrap(), target }
}

#[test]
fn values_and_targets_are_as_by_hand() {
    let raster = Raster::try_new(2, &[1, 2], vec![0_u16, 65_535, 13_107, 0]).unwrap();
    let image = Raster::try_new(1, &[2, 1, 2], vec![1.0_f32, 2.0, 3.0, 4.0]).unwrap();
    let labels = Raster::try_new(1, &[1, 2], vec![7_u16, 300]).unwrap();
    let normalize = NormalizeChannels { mean: vec![0.0, 1.0], std: vec![0.5, 2.0] };
    let target = NormalizeChannels { mean: vec![1.0], std: vec![2.0] };
    let config = SampleConfig::new(1).with_normalize(normalize).with_normalize_target(target);
    let batch = |target| {
        let samples = in_memory(vec![Sample { raster: raster.clone(), target }]);
        let loader = Loader::from_samples(samples, config.clone()).unwrap();
        batches(&loader, 0).remove(0)
    };
    let none = batch(SampleTarget::None);
    assert_eq!(none.sample_shape(), [2, 1, 2]);
    for (got, expected) in none.values().iter().zip([0.0, 0.4, 0.0, -0.5]) {
        assert!((got - expected).abs() < 1e-6, "{got} {expected}");
    }
    assert_eq!(none.targets(), &TargetBatch::None);
    assert_eq!(batch(SampleTarget::Class(3)).targets(), &TargetBatch::Classes(vec![3]));
    let values = batch(SampleTarget::Values(Cow::Owned(vec![1.5, -2.0])));
    assert_eq!(values.targets(), &TargetBatch::Values { shape: vec![2], values: vec![1.5, -2.0] });
    // Without augmentation a target may have other sides, and more of them.
    let image = batch(SampleTarget::Image(image));
    let expected = vec![0.0, 0.5, 1.0, 1.5];
    assert_eq!(image.targets(), &TargetBatch::Images { shape: vec![1, 2, 1, 2], values: expected });
    let labels = batch(SampleTarget::Labels(labels));
    assert_eq!(labels.targets(), &TargetBatch::Labels { shape: vec![1, 2], labels: vec![7, 300] });
}

#[test]
fn bytes_of_a_sample_are_those_of_its_values_and_target() {
    let image = Raster::try_new(2, &[2, 3], vec![0_u8; 12]).unwrap();
    let labels = Raster::try_new(1, &[2, 3], vec![0_u16; 6]).unwrap();
    // The sample has 3 channels of 6 pixels, in f32.
    for (target, bytes) in [
        (SampleTarget::None, 0),
        (SampleTarget::Class(1), size_of::<usize>()),
        (SampleTarget::Values(Cow::Owned(vec![0.5; 5])), 20),
        (SampleTarget::Image(image), 48),
        (SampleTarget::Labels(labels), 12),
    ] {
        let samples = in_memory(vec![picture(3, target)]);
        let loader = Loader::from_samples(samples, SampleConfig::new(1)).unwrap();
        assert_eq!(loader.collate().sample_bytes(), 72 + bytes);
    }
}

#[test]
fn any_number_of_workers_delivers_the_same_bits() {
    let expected = batches(&loader(0), 3);
    assert_eq!(expected.len(), 5);
    assert_eq!(expected[0].sample_shape(), [2, 3, 6, 5]);
    for workers in [1, 2, 8] {
        assert_eq!(batches(&loader(workers), 3), expected, "{workers} workers");
    }
    assert_ne!(batches(&loader(0), 4)[0].values(), expected[0].values());
}

#[test]
fn resuming_in_the_middle_gives_exactly_the_rest() {
    let whole = batches(&loader(0), 1);
    for taken in 0..=whole.len() {
        let before = loader(2);
        let mut epoch = before.epoch(1);
        for _ in 0..taken {
            epoch.next().unwrap().unwrap();
        }
        let text = serde_json::to_string(&epoch.state()).unwrap();
        let state: LoaderState = serde_json::from_str(&text).unwrap();
        for workers in [0, 2] {
            let loader = loader(workers);
            let rest: Result<Vec<_>, _> = loader.resume(&state).unwrap().collect();
            assert_eq!(rest.unwrap(), whole[taken..], "{taken} taken, {workers} workers");
        }
    }
}

#[test]
fn a_state_of_other_settings_is_refused_by_name() {
    let state = loader(0).epoch(0).state();
    let refused = |source, config| {
        let other = Loader::from_samples(Arc::new(source), config).unwrap();
        match other.resume(&state).unwrap_err() {
            DataError::ForeignState { setting, .. } => setting,
            error => panic!("{error}"),
        }
    };
    assert_eq!(refused(volumes(18), config().with_seed(6)), "seed");
    assert_eq!(refused(volumes(17), config()), "samples");
    let fewer = config().with_augment(transforms()[1..].to_vec());
    assert_eq!(refused(volumes(18), fewer), "sample settings fingerprint");
    let other = config().with_normalize(NormalizeChannels::default());
    assert_eq!(refused(volumes(18), other), "sample settings fingerprint");
}

/// Images as samples go through the loops of any number of channels: the same bits as the loader
/// of images.
#[test]
fn labeled_images_are_samples_with_the_same_bits() {
    let images = GeneratedConfig::new(Cue::Both, 30).with_size(16, 20);
    let images: Arc<dyn ImageSource> = Arc::new(GeneratedImages::try_new(images).unwrap());
    let mut augment: Vec<Arc<dyn Augment>> =
        vec![Arc::new(ColorJitter { brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 })];
    augment.extend(transforms().into_iter().skip(4));
    let loader = LoaderConfig::new(8).with_seed(3).with_augment(augment.clone());
    let loader = Loader::try_new(images.clone(), loader).unwrap();
    let samples = SampleConfig::new(8).with_seed(3).with_augment(augment);
    let samples = Loader::from_samples(Arc::new(ImageSamples::new(images)), samples).unwrap();
    for (image, sample) in loader.epoch(2).zip(samples.epoch(2)) {
        let (image, sample) = (image.unwrap(), sample.unwrap());
        assert_eq!(image.planes(), sample.values());
        assert_eq!(sample.targets(), &TargetBatch::Classes(image.labels().to_vec()));
        assert_eq!(image.indices(), sample.indices());
    }
}

#[test]
fn what_a_transform_cannot_serve_is_refused_at_construction() {
    let none = || vec![picture(5, SampleTarget::None)];
    let with = |augment: Arc<dyn Augment>| SampleConfig::new(1).with_augment(vec![augment]);
    assert_eq!(
        refused(none(), with(Arc::new(ColorJitter::default()))),
        "`color_jitter` needs 3 channels: red, green and blue, the samples are u8 5 channels of \
         2x3; leave it out"
    );
    assert_eq!(
        refused(none(), with(Arc::new(Flip { axis: Axis::Depth }))),
        "`flip` needs volumes, [depth, height, width], the samples are u8 5 channels of 2x3; \
         leave it out"
    );
    assert_eq!(
        refused(none(), with(Arc::new(Translate { max_pixels: 2 }))),
        "`translate.max_pixels` is 2; expected less than the shorter side, 2"
    );
    let volume = Raster::try_new(1, &[2, 4, 4], vec![0_u16; 32]).unwrap();
    let volume = vec![Sample { raster: volume, target: SampleTarget::None }];
    assert_eq!(
        refused(volume, with(Arc::new(TranslateDepth { max_slices: 2 }))),
        "`translate_depth.max_slices` is 2; expected less than the depth, 2"
    );
    let mask = Raster::try_new(1, &[4, 6], vec![0_u8; 24]).unwrap();
    assert_eq!(
        refused(
            vec![picture(1, SampleTarget::Labels(mask.clone()))],
            with(Arc::new(HorizontalFlip))
        ),
        "the target has sides [4, 6], the sample [2, 3]; augmentation needs equal ones"
    );
}

#[test]
fn settings_and_masks_that_cannot_be_used_are_refused() {
    let config = || SampleConfig::new(1);
    let three = NormalizeChannels { mean: vec![0.0; 3], std: Vec::new() };
    assert_eq!(
        refused(vec![picture(2, SampleTarget::None)], config().with_normalize(three.clone())),
        "`normalize.mean` is 3 numbers; expected 2, one for each channel, or none"
    );
    let image = Raster::try_new(2, &[2, 3], vec![0_u8; 12]).unwrap();
    assert_eq!(
        refused(
            vec![picture(2, SampleTarget::Image(image.clone()))],
            config().with_normalize_target(three)
        ),
        "`normalize.mean` is 3 numbers; expected 2, one for each channel, or none"
    );
    assert_eq!(
        refused(vec![picture(2, SampleTarget::Labels(image))], config()),
        "`item 0` (sample 0) has target labels of u8 2 channels of 2x3; expected labels of 1 \
         channel of u8 or u16"
    );
    assert_eq!(
        refused(vec![picture(1, SampleTarget::None)], SampleConfig::new(0)),
        "`batch` is 0; expected 1 to 16777216"
    );
    assert!(matches!(InMemorySamples::try_new(Vec::new()), Err(DataError::Empty)));
}

/// Ten samples, of which 2 cannot be read, 5 has other channels, 7 another target, and 8 panics.
struct Faulty(InMemorySamples);

impl SampleSource for Faulty {
    fn len(&self) -> usize {
        10
    }

    fn name(&self, index: usize) -> String {
        format!("item {index}")
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        match index {
            2 => Err(DataError::Read {
                place: updraft_data::Place { name: self.name(2), index: Some(2) },
                cause: std::io::Error::other("the disk is gone"),
            }),
            5 => Ok(picture(3, SampleTarget::Class(1))),
            7 => Ok(picture(2, SampleTarget::None)),
            8 => panic!("a bug"),
            _ => self.0.read(0),
        }
    }

    fn fingerprint(&self) -> String {
        self.0.fingerprint()
    }
}

#[test]
fn faults_are_raised_skipped_or_written_down() {
    let faulty = || {
        let good = ("good".to_owned(), picture(2, SampleTarget::Class(0)));
        Arc::new(Faulty(InMemorySamples::try_new(vec![good]).unwrap()))
    };
    let messages = [
        "`item 2` (sample 2) cannot be read: the disk is gone",
        "`item 5` (sample 5) has u8 3 channels of 2x3; expected u8 2 channels of 2x3, as the first \
         sample has",
        "`item 7` (sample 7) has no target; expected a class as target, as the first sample has",
        "`item 8` (sample 8): the worker panicked: a bug; this is a bug in the data source",
    ];
    let folder = tempfile::tempdir().unwrap();
    for workers in [0, 2] {
        let config = |faults| {
            let mut config = SampleConfig::new(3).with_workers(Workers::Count(workers));
            config.stream.faults = faults;
            config.with_augment(vec![Arc::new(HorizontalFlip)])
        };
        let raise = Loader::from_samples(faulty(), config(FaultPolicy::Raise)).unwrap();
        assert_eq!(message(&raise.epoch(0).find_map(Result::err).unwrap()), messages[0]);
        let skip = config(FaultPolicy::Skip { at_most: 4 });
        let skip = Loader::from_samples(faulty(), skip).unwrap();
        let mut epoch = skip.epoch(0);
        let indices: Vec<Vec<usize>> =
            epoch.by_ref().map(|batch| batch.unwrap().indices().to_vec()).collect();
        assert_eq!(indices, [vec![0, 1], vec![3, 4], vec![6], vec![9]]);
        let skipped: Vec<String> = epoch.skipped().iter().map(|f| message(&f.error)).collect();
        assert_eq!(skipped, messages);
        let file = folder.path().join(format!("bad-{workers}.jsonl"));
        let faults = FaultPolicy::Quarantine { file: file.clone(), at_most: 4 };
        let quarantine = Loader::from_samples(faulty(), config(faults)).unwrap();
        assert_eq!(quarantine.epoch(0).map(|batch| batch.unwrap().len()).sum::<usize>(), 6);
        let causes: Vec<String> =
            Quarantined::read(&file).unwrap().into_iter().map(|line| line.cause).collect();
        assert_eq!(causes, messages);
    }
}

#[test]
fn a_memory_cache_keeps_what_fits_and_changes_no_bit() {
    let expected = batches(&loader(0), 2);
    let sample = volumes(1).read(0).unwrap().bytes();
    assert_eq!(sample, 90 * 2 * 2 + 90);
    for (budget, kept) in [(18 * sample, 18), (5 * sample + 7, 5), (0, 0)] {
        for workers in [0, 4] {
            let cached = Arc::new(CachedSamples::new(Arc::new(volumes(18)), budget));
            let config = config().with_workers(Workers::Count(workers));
            let loader = Loader::from_samples(cached.clone(), config).unwrap();
            // A run may continue with the cache or without: the set is the same.
            assert_eq!(loader.epoch(0).state(), self::loader(0).epoch(0).state());
            for _ in 0..2 {
                assert_eq!(batches(&loader, 2), expected);
                assert_eq!(cached.used_bytes(), kept * sample, "{workers} workers");
            }
        }
    }
}

#[test]
fn a_part_of_a_set_has_its_samples() {
    let all: Arc<dyn SampleSource> = Arc::new(volumes(6));
    let part = SampleSubset::try_new(all.clone(), vec![5, 1]).unwrap();
    assert_eq!((part.len(), part.name(0)), (2, "volume 5".to_owned()));
    assert_eq!(part.read(1).unwrap(), all.read(1).unwrap());
    assert_ne!(part.fingerprint(), all.fingerprint());
    assert!(matches!(
        SampleSubset::try_new(all.clone(), vec![6]),
        Err(DataError::OutOfRange { index: 6, samples: 6 })
    ));
    assert!(matches!(SampleSubset::try_new(all, Vec::new()), Err(DataError::Empty)));
}

#[test]
fn a_fingerprint_depends_on_values_types_and_targets() {
    let fingerprint = |sample: Sample<'static>| in_memory(vec![sample]).fingerprint();
    let plain = |pixels: Pixels<'static>| Sample {
        raster: Raster::try_new(1, &[1, 2], pixels).unwrap(),
        target: SampleTarget::None,
    };
    let all = [
        fingerprint(plain(vec![1_u8, 2].into())),
        fingerprint(plain(vec![2_u8, 1].into())),
        fingerprint(plain(vec![1_u16, 2].into())),
        fingerprint(plain(vec![1.0_f32, 2.0].into())),
        fingerprint(Sample { target: SampleTarget::Class(0), ..plain(vec![1_u8, 2].into()) }),
        fingerprint(Sample { target: SampleTarget::Class(1), ..plain(vec![1_u8, 2].into()) }),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(!all[at + 1..].contains(one), "{at}");
    }
    assert_eq!(all[0], fingerprint(plain(vec![1_u8, 2].into())));
}

#[cfg(feature = "burn")]
#[test]
pub(crate) fn batches_become_tensors_of_their_shape_and_no_other() {
    let loader = loader(0);
    let batch = loader.epoch(0).next().unwrap().unwrap();
    for device in updraft_testing::devices() {
        assert_eq!(batch.input::<5>(&device).unwrap().dims(), [4, 2, 3, 6, 5]);
        let labels = batch.target_labels::<4>(&device).unwrap();
        assert_eq!(labels.dims(), [4, 3, 6, 5]);
        let TargetBatch::Labels { labels: expected, .. } = batch.targets() else { panic!() };
        let got: Vec<i64> = labels.into_data().convert::<i64>().try_to_vec().unwrap();
        assert!(got.iter().zip(expected).all(|(got, expected)| *got == i64::from(*expected)));
        assert_eq!(
            message(&batch.input::<4>(&device).unwrap_err()),
            "the input of the batch has shape [4, 2, 3, 6, 5]; expected 4 axes"
        );
        assert_eq!(
            message(&batch.target_labels::<2>(&device).unwrap_err()),
            "the target of the batch has shape [4, 3, 6, 5]; expected 2 axes"
        );
        let other = "the targets of the batch are labels; expected";
        assert_eq!(message(&batch.classes(&device).unwrap_err()), format!("{other} classes"));
        assert_eq!(
            message(&batch.target_values::<2>(&device).unwrap_err()),
            format!("{other} values or images")
        );
    }
}
