//! Augmented and mixed batches: the same bits for any number of workers.

use std::sync::Arc;

use updraft_data::{
    Augment, ColorJitter, Cue, DataError, GeneratedConfig, GeneratedImages, HorizontalFlip,
    ImageBatch, Loader, LoaderConfig, MixUp, Order, RandomResizedCrop, Rotate, Translate, Workers,
    Zoom,
};

fn everything() -> Vec<Arc<dyn Augment>> {
    vec![
        Arc::new(HorizontalFlip),
        Arc::new(Translate { max_pixels: 2 }),
        Arc::new(Rotate { max_degrees: 20.0 }),
        Arc::new(Zoom { min_factor: 0.9, max_factor: 1.2 }),
        Arc::new(RandomResizedCrop { min_area: 0.5, max_stretch: 1.3 }),
        Arc::new(ColorJitter { brightness: 0.2, contrast: 0.2, saturation: 0.2, hue: 0.05 }),
    ]
}

fn loader(config: LoaderConfig) -> Result<Loader, DataError> {
    let images = GeneratedConfig::new(Cue::Both, 50).with_size(16, 20);
    Loader::try_new(Arc::new(GeneratedImages::try_new(images).unwrap()), config)
}

fn config() -> LoaderConfig {
    LoaderConfig::new(8).with_order(Order::Shuffled).with_seed(3).with_augment(everything())
}

fn batches(config: LoaderConfig, epoch: u64) -> Vec<ImageBatch> {
    loader(config).unwrap().epoch(epoch).map(Result::unwrap).collect()
}

#[test]
fn every_transform_together_gives_the_same_bits_for_any_number_of_workers() {
    let mixed = config().with_mix_up(MixUp { alpha: 0.4 });
    let expected = batches(mixed.clone(), 2);
    for workers in [1, 2, 8] {
        let got = batches(mixed.clone().with_workers(Workers::Count(workers)), 2);
        assert_eq!(got, expected, "{workers} workers");
    }
    assert_ne!(batches(mixed, 3)[0].planes(), expected[0].planes());
}

#[test]
fn a_mixed_batch_is_the_mixture_that_its_shares_say() {
    let plain = batches(config(), 1);
    let mixed = batches(config().with_mix_up(MixUp { alpha: 1.0 }), 1);
    for (plain, mixed) in plain.iter().zip(&mixed) {
        let mix = mixed.mix().unwrap();
        let count = 3 * 16 * 20;
        for at in 0..plain.len() {
            let partner = (at + 1) % plain.len();
            assert_eq!(mix.partner_labels[at], plain.labels()[partner]);
            let share = mix.shares[at];
            for value in [0, count / 2, count - 1] {
                let [own, other] =
                    [at, partner].map(|sample| plain.planes()[sample * count + value]);
                let expected = share * own + (1.0 - share) * other;
                assert!((mixed.planes()[at * count + value] - expected).abs() < 1e-6);
            }
        }
        let soft = mixed.soft_labels(16);
        for (at, row) in soft.chunks(16).enumerate() {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            assert!(row[mixed.labels()[at]] >= mix.shares[at]);
        }
    }
    let hard = plain[0].soft_labels(16);
    assert!(hard.chunks(16).zip(plain[0].labels()).all(|(row, &label)| row[label] == 1.0));
}

#[test]
fn settings_out_of_range_are_named() {
    let refused = |augment: Arc<dyn Augment>| {
        loader(config().with_augment(vec![augment])).unwrap_err().to_string()
    };
    let cases: [(Arc<dyn Augment>, &str); 4] = [
        (Arc::new(Rotate { max_degrees: 181.0 }), "`rotate.max_degrees` is 181; expected 0 to 180"),
        (
            Arc::new(Zoom { min_factor: 1.5, max_factor: 1.2 }),
            "`zoom.min_factor` is 1.5; expected 0.1 to 1.2",
        ),
        (
            Arc::new(RandomResizedCrop { min_area: 0.0, max_stretch: 1.0 }),
            "`random_resized_crop.min_area` is 0; expected 0.001 to 1",
        ),
        (
            Arc::new(ColorJitter { hue: f32::NAN, ..ColorJitter::default() }),
            "`color_jitter.hue` is NaN; expected 0 to 0.5",
        ),
    ];
    for (augment, message) in cases {
        assert_eq!(refused(augment), message);
    }
    let error = loader(config().with_mix_up(MixUp { alpha: 0.0 })).unwrap_err();
    assert_eq!(error.to_string(), "`mix_up.alpha` is 0; expected above 0, at most 10");
}

#[test]
fn a_state_depends_on_every_setting() {
    let state = loader(config()).unwrap().epoch(0).state();
    for other in [
        config().with_mix_up(MixUp { alpha: 0.4 }),
        config().with_augment(everything()[..5].to_vec()),
        config().with_augment(vec![Arc::new(Rotate { max_degrees: 10.0 })]),
    ] {
        assert!(loader(other).unwrap().resume(&state).is_err());
    }
}
