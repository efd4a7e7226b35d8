//! Targets move with their samples, for every transform, type and number of channels.

use std::sync::Arc;

use proptest::prelude::*;
use updraft_data::{
    Augment, Axis, Canvas, ColorJitter, Crop, DataError, Digest, Flip, HorizontalFlip, Pixels,
    PixelsMut, Random, RandomResizedCrop, Raster, RasterSpec, Rotate, SampleTarget, Translate,
    TranslateDepth, Zoom,
};

fn geometric() -> Vec<Arc<dyn Augment>> {
    vec![
        Arc::new(Flip { axis: Axis::Depth }),
        Arc::new(Flip { axis: Axis::Height }),
        Arc::new(Flip { axis: Axis::Width }),
        Arc::new(HorizontalFlip),
        Arc::new(TranslateDepth { max_slices: 1 }),
        Arc::new(Translate { max_pixels: 2 }),
        Arc::new(Rotate { max_degrees: 180.0 }),
        Arc::new(Zoom { min_factor: 0.6, max_factor: 1.7 }),
        Arc::new(RandomResizedCrop { min_area: 0.1, max_stretch: 2.0 }),
    ]
}

/// The pixels of a raster as numbers.
fn numbers(raster: &Raster<'_>) -> Vec<f32> {
    match raster.pixels() {
        Pixels::U8(values) => values.iter().map(|&value| f32::from(value)).collect(),
        Pixels::U16(values) => values.iter().map(|&value| f32::from(value)).collect(),
        Pixels::F32(values) => values.to_vec(),
    }
}

fn raster(kind: u8, channels: usize, sides: &[usize], seed: u64) -> Raster<'static> {
    let mut random = Random::for_augment(seed, 9, 9);
    let count = channels * sides.iter().product::<usize>();
    let mut draw = |bound| random.below(bound);
    match kind {
        0 => Raster::try_new(channels, sides, draws(count, || draw(256) as u8)),
        1 => Raster::try_new(channels, sides, draws(count, || draw(65_536) as u16)),
        _ => Raster::try_new(channels, sides, draws(count, || draw(1 << 20) as f32 - 1e5)),
    }
    .unwrap()
}

fn draws<T>(count: usize, draw: impl FnMut() -> T) -> Vec<T> {
    std::iter::repeat_with(draw).take(count).collect()
}

proptest! {
    #[test]
    fn a_sample_and_a_target_of_one_picture_stay_equal(
        kind in 0..3_u8,
        channels in 1..6_usize,
        depth in prop::option::of(2..4_usize),
        height in 3..12_usize,
        width in 3..12_usize,
        seed in any::<u64>(),
    ) {
        let sides: Vec<usize> = depth.into_iter().chain([height, width]).collect();
        let sample = raster(kind, channels, &sides, seed);
        let mut canvas = Canvas::default();
        for transform in geometric() {
            if transform.validate(sample.spec()).is_err() {
                prop_assert!(depth.is_none(), "{transform:?}");
                continue;
            }
            canvas.load(&sample, &SampleTarget::Image(sample.clone())).unwrap();
            transform.apply(&mut Random::for_augment(seed, 0, 1), &mut canvas);
            prop_assert_eq!(canvas.raster(), canvas.target().unwrap(), "{:?}", transform);
            prop_assert_eq!(canvas.spec(), sample.spec());
            // What a bilinear mean makes stays in the range of the picture.
            let range = |raster: &Raster<'_>| {
                let numbers = numbers(raster);
                let low = numbers.iter().copied().fold(f32::INFINITY, f32::min);
                (low, numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max))
            };
            let ((low, high), (least, most)) = (range(&sample), range(&canvas.raster()));
            prop_assert!(least >= low - 1.0 && most <= high + 1.0, "{:?}", transform);
        }
    }

    #[test]
    fn a_mask_moves_with_its_picture_and_gains_no_label(
        depth in prop::option::of(2..4_usize),
        seed in any::<u64>(),
    ) {
        // Labels 3 and 200 in two halves, divided by a slanted line.
        let sides: Vec<usize> = depth.into_iter().chain([24, 20]).collect();
        let count: usize = sides.iter().product();
        let label = |at: usize| if at % 20 + at / 20 % 24 / 4 < 12 { 3_u8 } else { 200 };
        let labels = Raster::try_new(1, &sides, (0..count).map(label).collect::<Vec<_>>()).unwrap();
        let sample: Vec<f32> = (0..count).map(|at| f32::from(label(at))).collect();
        let sample = Raster::try_new(1, &sides, sample).unwrap();
        let mut canvas = Canvas::default();
        for transform in geometric() {
            if transform.validate(sample.spec()).is_err() {
                continue;
            }
            canvas.load(&sample, &SampleTarget::Labels(labels.clone())).unwrap();
            transform.apply(&mut Random::for_augment(seed, 0, 1), &mut canvas);
            let (moved, target) = (numbers(&canvas.raster()), numbers(&canvas.target().unwrap()));
            for (value, label) in moved.iter().zip(&target) {
                prop_assert!([3.0, 200.0].contains(label), "{:?}: {}", transform, label);
                // Nearest is on the side of the line on which the mean is.
                if (value - 101.5).abs() > 98.0 {
                    prop_assert_eq!(value > &101.5, label > &101.5, "{:?}", transform);
                }
            }
        }
    }

    #[test]
    fn all_slices_of_a_volume_are_moved_alike(kind in 0..3_u8, seed in any::<u64>()) {
        let slice = raster(kind, 2, &[7, 9], seed);
        let volume = match slice.pixels() {
            Pixels::U8(values) => Raster::try_new(2, &[3, 7, 9], values.repeat(3)),
            Pixels::U16(values) => Raster::try_new(2, &[3, 7, 9], values.repeat(3)),
            Pixels::F32(values) => Raster::try_new(2, &[3, 7, 9], values.repeat(3)),
        }
        .unwrap();
        let (mut flat, mut deep) = (Canvas::default(), Canvas::default());
        for transform in geometric().into_iter().filter(|t| t.validate(slice.spec()).is_ok()) {
            flat.load(&slice, &SampleTarget::None).unwrap();
            deep.load(&volume, &SampleTarget::None).unwrap();
            transform.apply(&mut Random::for_augment(seed, 0, 1), &mut flat);
            transform.apply(&mut Random::for_augment(seed, 0, 1), &mut deep);
            let one = numbers(&flat.raster());
            prop_assert_eq!(numbers(&deep.raster()), one.repeat(3), "{:?}", transform);
        }
    }
}

#[test]
fn a_volume_is_moved_along_its_depth_as_by_hand() {
    let volume = Raster::try_new(1, &[4, 1, 2], vec![1_u16, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let mut canvas = Canvas::default();
    for (slices, expected) in [
        (1, [3_u8, 4, 1, 2, 3, 4, 5, 6]),
        (-1, [3, 4, 5, 6, 7, 8, 5, 6]),
        (3, [7, 8, 5, 6, 3, 4, 1, 2]),
    ] {
        canvas.load(&volume, &SampleTarget::None).unwrap();
        canvas.translate(slices, 0, 0);
        assert_eq!(numbers(&canvas.raster()), expected.map(f32::from), "{slices}");
    }
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..100 {
        canvas.load(&volume, &SampleTarget::None).unwrap();
        let transform = TranslateDepth { max_slices: 2 };
        transform.apply(&mut Random::for_augment(1, 0, index), &mut canvas);
        seen.insert(numbers(&canvas.raster())[4] as u16);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 3, 5, 7]);
}

#[test]
fn colors_change_alike_in_every_type_and_leave_the_target() {
    let bytes = [200_u8, 100, 50, 10, 20, 30];
    let rasters = [
        Raster::try_new(3, &[1, 2], bytes.to_vec()),
        Raster::try_new(3, &[1, 2], bytes.map(|byte| u16::from(byte) * 257).to_vec()),
        Raster::try_new(3, &[1, 2], bytes.map(|byte| f32::from(byte) / 255.0).to_vec()),
    ]
    .map(Result::unwrap);
    let jitter = ColorJitter { brightness: 0.3, contrast: 0.3, saturation: 0.3, hue: 0.1 };
    let mut canvas = Canvas::default();
    for index in 0..20 {
        let changed = rasters.each_ref().map(|raster| {
            canvas.load(raster, &SampleTarget::Image(raster.clone())).unwrap();
            jitter.apply(&mut Random::for_augment(4, 0, index), &mut canvas);
            assert_eq!(canvas.target().unwrap(), *raster);
            let one = raster.spec().pixel_type.one();
            numbers(&canvas.raster()).iter().map(|value| value / one).collect::<Vec<_>>()
        });
        for ((byte, word), float) in changed[0].iter().zip(&changed[1]).zip(&changed[2]) {
            // Half a level of what is rounded.
            assert!((byte - float).abs() <= 0.501 / 255.0, "{byte} {float}");
            assert!((word - float).abs() <= 0.501 / 65_535.0 + 1e-6, "{word} {float}");
        }
    }
}

/// A transform of a user's own: crops to the upper left quarter and inverts the sample.
#[derive(Debug)]
struct Corner;

impl Augment for Corner {
    fn validate(&self, sample: &RasterSpec) -> Result<(), DataError> {
        if sample.height.min(sample.width) >= 2 {
            return Ok(());
        }
        let (expected, got) = ("at least two rows and columns", sample.to_string());
        Err(DataError::Augment { transform: "corner", expected, got })
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("corner")
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        if random.coin() {
            return;
        }
        let RasterSpec { height, width, .. } = *canvas.spec();
        canvas.crop_resized(Crop { top: 0, left: 0, rows: height / 2, columns: width / 2 });
        match canvas.pixels_mut() {
            PixelsMut::U8(values) => values.iter_mut().for_each(|value| *value = 255 - *value),
            PixelsMut::U16(values) => values.iter_mut().for_each(|value| *value = !*value),
            PixelsMut::F32(values) => values.iter_mut().for_each(|value| *value = 1.0 - *value),
        }
    }
}

#[test]
fn a_transform_of_a_users_own_moves_the_target_too() {
    let sample = Raster::try_new(1, &[4, 4], (0..16_u8).collect::<Vec<_>>()).unwrap();
    let mut canvas = Canvas::default();
    let mut cropped = 0;
    for index in 0..40 {
        canvas.load(&sample, &SampleTarget::Labels(sample.clone())).unwrap();
        Corner.apply(&mut Random::for_augment(2, 0, index), &mut canvas);
        let labels = numbers(&canvas.target().unwrap());
        if canvas.raster() == sample {
            assert_eq!(labels, numbers(&sample));
        } else {
            let quarter = [0, 0, 1, 1, 0, 0, 1, 1, 4, 4, 5, 5, 4, 4, 5, 5];
            assert_eq!(labels, quarter.map(|label: u8| f32::from(label)));
            assert_eq!(numbers(&canvas.raster())[0], 255.0);
            cropped += 1;
        }
    }
    assert!((8..=32).contains(&cropped), "{cropped}");
}

#[test]
#[should_panic(expected = "does not lie in 4x4")]
fn a_part_outside_of_the_picture_is_the_callers_bug() {
    let mut canvas = Canvas::default();
    let sample = Raster::try_new(1, &[4, 4], vec![0_u8; 16]).unwrap();
    canvas.load(&sample, &SampleTarget::None).unwrap();
    canvas.crop_resized(Crop { top: 2, left: 0, rows: 3, columns: 4 });
}
