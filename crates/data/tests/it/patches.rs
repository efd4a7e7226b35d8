//! Patches of volumes: the same place of input and target, balanced, normalized, from any split.

use std::collections::BTreeMap;
use std::sync::Arc;

use updraft_data::{
    Augment, Axis, CellsConfig, Delimiter, Elastic, Flip, Foreground, Intensity, Loader, Noise,
    OpenConfig, Order, PatchConfig, QuarterTurn, Raster, SampleConfig, SampleSource, TargetBatch,
    TensorBatch, TiffWriteConfig, Volume, VolumeManifest, VolumePair, VolumePatches, VolumeScale,
    VolumeSource, VolumeTarget, Workers, draw_cells, open_volume, volume_statistics, write_cells,
    write_volume,
};

use crate::files::{message, shared};

/// A volume of two frames whose every value says where it is.
pub(super) fn places(name: &str, channels: usize, sides: &[usize], sign: f32) -> Volume {
    let count = channels * sides.iter().product::<usize>();
    let frame = |frame: usize| {
        let values = (0..count).map(|at| sign * (at + frame * count) as f32);
        Raster::try_new(channels, sides, values.collect::<Vec<_>>()).unwrap()
    };
    Volume::try_new(name, vec![frame(0), frame(1)], [None; 3]).unwrap()
}

fn pair(name: &str, sides: &[usize]) -> VolumePair {
    VolumePair {
        input: Arc::new(places(name, 1, sides, 1.0)),
        target: VolumeTarget::Image(Arc::new(places("target", 1, sides, -1.0))),
    }
}

fn patches(pairs: Vec<VolumePair>, config: PatchConfig) -> VolumePatches {
    VolumePatches::try_new(pairs, config, &mut |_| {}).unwrap()
}

fn config(workers: usize) -> SampleConfig {
    SampleConfig::new(16)
        .with_order(Order::Shuffled)
        .with_seed(9)
        .with_workers(Workers::Count(workers))
}

#[test]
fn input_and_target_are_the_same_place_for_any_number_of_workers_and_after_a_resume() {
    let source = || {
        let pairs = vec![pair("a", &[6, 8, 10]), pair("b", &[5, 9, 7])];
        Arc::new(patches(pairs, PatchConfig::new(&[3, 4, 5], 40)))
    };
    let loader = |workers| Loader::from_samples(source(), config(workers)).unwrap();
    let batches = |workers, epoch| -> Vec<TensorBatch> {
        loader(workers).epoch(epoch).map(Result::unwrap).collect()
    };
    let expected = batches(0, 4);
    for workers in [1, 3, 8] {
        assert_eq!(batches(workers, 4), expected, "{workers} workers");
    }
    assert_ne!(batches(0, 5), expected);
    let mut epoch = loader(2).epoch(4);
    let first = epoch.next().unwrap().unwrap();
    let rest: Vec<TensorBatch> =
        loader(0).resume(&epoch.state()).unwrap().map(Result::unwrap).collect();
    assert_eq!([vec![first], rest].concat(), expected);
    let mut places = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
    for batch in &expected {
        assert_eq!(batch.sample_shape(), [1, 3, 4, 5]);
        let TargetBatch::Images { values, .. } = batch.targets() else { panic!("no images") };
        assert!(batch.values().iter().zip(values).all(|(input, target)| *input == -target));
        for (at, &index) in batch.indices().iter().enumerate() {
            let values = &batch.values()[at * 60..][..60];
            let stride = [[80.0, 10.0], [63.0, 7.0]][index / 40];
            assert!((values[20] - values[0], values[5] - values[0]) == (stride[0], stride[1]));
            places[index / 40].insert(values[0] as usize);
        }
    }
    // Forty draws of two frames of 4·5·6 places, or of 3·6·3, hit more than half of forty.
    assert!(places.iter().all(|places| places.len() > 20), "{places:?}");
}

#[test]
fn every_place_is_drawn() {
    let raster = Raster::try_new(1, &[3, 4], (0..12_u8).collect::<Vec<_>>()).unwrap();
    let input = Volume::try_new("p", vec![raster], [None; 3]).unwrap();
    let pair = VolumePair { input: Arc::new(input), target: VolumeTarget::None };
    let source = patches(vec![pair], PatchConfig::new(&[2, 2], 600));
    let loader = Loader::from_samples(Arc::new(source), SampleConfig::new(600)).unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    let mut seen = [0_i32; 12];
    batch.values().chunks(4).for_each(|patch| seen[(patch[0] * 255.0).round() as usize] += 1);
    let places = [0, 1, 2, 4, 5, 6];
    // Four standard deviations of 600 draws with chance 1/6 are 37.
    assert!(places.iter().all(|&place: &usize| (seen[place] - 100).abs() < 37), "{seen:?}");
    assert_eq!(places.iter().map(|&place| seen[place]).sum::<i32>(), 600);
}

#[test]
fn patches_are_centered_on_the_foreground_as_often_as_asked_for() {
    // Three voxels of the foreground in 2 · 4 · 30 · 40.
    let mut labels = vec![0_u8; 2 * 4 * 30 * 40];
    let wanted = [(0, 1, 10, 20), (1, 2, 25, 5), (1, 3, 10, 30)];
    for (frame, slice, row, column) in wanted {
        labels[((frame * 4 + slice) * 30 + row) * 40 + column] = 2;
    }
    let frames = labels
        .chunks(4 * 30 * 40)
        .map(|labels| Raster::try_new(1, &[4, 30, 40], labels.to_vec()).unwrap());
    let labels = Volume::try_new("labels", frames.collect(), [None; 3]).unwrap();
    let pair = VolumePair {
        input: Arc::new(places("input", 1, &[4, 30, 40], 1.0)),
        target: VolumeTarget::Labels(Arc::new(labels)),
    };
    let foreground = Foreground { share: 0.75, above: 0.0 };
    let config = PatchConfig::new(&[1, 5, 5], 400).with_foreground(foreground).with_classes(3);
    let loader =
        Loader::from_samples(Arc::new(patches(vec![pair], config)), SampleConfig::new(400));
    let batch = loader.unwrap().epoch(1).next().unwrap().unwrap();
    let TargetBatch::Labels { labels, .. } = batch.targets() else { panic!("no labels") };
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, labels) in labels.chunks(25).enumerate() {
        if labels[12] == 2 {
            *seen.entry(batch.values()[at * 25 + 12] as usize).or_default() += 1;
        }
    }
    // 300 of 400 are expected, 100 for each voxel: four standard deviations are 35 and 33.
    assert_eq!(seen.len(), 3);
    assert!(seen.values().all(|&count| count.abs_diff(100) < 33), "{seen:?}");
    assert!(seen.values().sum::<usize>().abs_diff(300) < 35, "{seen:?}");
}

#[test]
fn each_volume_and_channel_is_normalized_by_its_own_values() {
    let values = |factor: f32| {
        (0..2 * 200)
            .map(|at| {
                if at % 2 == 0 {
                    factor * (at / 2) as f32
                } else {
                    7.0 - factor * (at / 2 % 3) as f32
                }
            })
            .collect::<Vec<_>>()
    };
    let volume = |factor| {
        let raster = Raster::try_new(2, &[10, 20], values(factor)).unwrap();
        Volume::try_new("v", vec![raster], [None; 3]).unwrap()
    };
    let whole = |scale| {
        let pairs = [1.0, 50.0].map(|factor| VolumePair {
            input: Arc::new(volume(factor)),
            target: VolumeTarget::None,
        });
        let config = PatchConfig::new(&[10, 20], 1).with_scales(scale, VolumeScale::None);
        let source = Arc::new(patches(pairs.to_vec(), config));
        let batch = Loader::from_samples(source, SampleConfig::new(2)).unwrap().epoch(0).next();
        batch.unwrap().unwrap().values().to_vec()
    };
    for plane in whole(VolumeScale::ZScore).chunks(200) {
        let mean = plane.iter().sum::<f32>() / 200.0;
        let square = plane.iter().map(|value| value * value).sum::<f32>() / 200.0;
        assert!(mean.abs() < 1e-4 && (square - 1.0).abs() < 1e-4, "{mean} {square}");
    }
    let scaled = whole(VolumeScale::Percentile { low: 0.0, high: 50.0 });
    assert!(
        (scaled[0], scaled[99 + 1]) == (0.0, scaled[100]) && (scaled[100] - 1.005).abs() < 1e-3
    );
    // Both volumes are the same but for a factor, so they become the same numbers.
    let (one, other) = scaled.split_at(400);
    assert!(one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-3));
    let numbers = volume_statistics(&volume(1.0)).unwrap();
    assert_eq!((numbers[0].mean, numbers[1].greatest), (99.5, 7.0));
}

#[test]
fn a_volume_beyond_the_memory_is_read_region_by_region_to_the_same_patches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume.ome.tif");
    write_volume(&path, &places("v", 2, &[6, 50, 60], 1.0), &TiffWriteConfig::default()).unwrap();
    let batch = |memory_bytes| {
        let input = open_volume(&path, &OpenConfig::default()).unwrap();
        let config = PatchConfig::new(&[2, 16, 16], 30)
            .with_scales(VolumeScale::ZScore, VolumeScale::None)
            .with_memory_bytes(memory_bytes);
        let source = patches(vec![VolumePair { input, target: VolumeTarget::None }], config);
        assert_eq!(source.pairs()[0].input.is_in_memory(), memory_bytes > 0);
        let loader = Loader::from_samples(Arc::new(source), SampleConfig::new(30)).unwrap();
        loader.epoch(2).next().unwrap().unwrap()
    };
    assert_eq!(batch(0), batch(1 << 30));
}

#[test]
fn patches_of_two_sides_are_slices_and_augmentation_moves_both() {
    let augment: Vec<Arc<dyn Augment>> = vec![
        Arc::new(QuarterTurn),
        Arc::new(Flip { axis: Axis::Width }),
        Arc::new(Elastic { max_pixels: 2.0, grid_pixels: 8.0 }),
    ];
    let pairs = vec![pair("a", &[6, 30, 30])];
    let source = Arc::new(patches(pairs.clone(), PatchConfig::new(&[16, 16], 20)));
    let loader = Loader::from_samples(source, SampleConfig::new(20).with_augment(augment));
    let batch = loader.unwrap().epoch(0).next().unwrap().unwrap();
    assert_eq!(batch.sample_shape(), [1, 16, 16]);
    let TargetBatch::Images { values, .. } = batch.targets() else { panic!("no images") };
    assert!(batch.values().iter().zip(values).all(|(input, target)| *input == -target));
    // What changes values leaves targets alone.
    let augment: Vec<Arc<dyn Augment>> =
        vec![Arc::new(Intensity { scale: 0.5, shift: 1.0 }), Arc::new(Noise { std: 1.0 })];
    let source = Arc::new(patches(pairs, PatchConfig::new(&[2, 4, 4], 20)));
    let plain = Loader::from_samples(source.clone(), SampleConfig::new(20)).unwrap();
    let changed = Loader::from_samples(source, SampleConfig::new(20).with_augment(augment));
    let [plain, changed] = [plain, changed.unwrap()].map(|l| l.epoch(0).next().unwrap().unwrap());
    assert_eq!(plain.targets(), changed.targets());
    assert!(plain.values().iter().zip(changed.values()).all(|(one, other)| one != other));
}

#[test]
fn pairs_that_do_not_fit_are_named() {
    let refused = |pairs: Vec<VolumePair>, config: PatchConfig| {
        message(&VolumePatches::try_new(pairs, config, &mut |_| {}).err().unwrap())
    };
    let sides = PatchConfig::new(&[3, 9, 5], 1);
    assert_eq!(
        refused(vec![pair("a", &[6, 8, 10])], sides.clone()),
        "`a`: the height is 8; expected at least 9, as a patch of [3, 9, 5] has"
    );
    assert!(
        refused(vec![pair("a", &[80, 80])], sides).starts_with("`a`: the depth is 1; expected")
    );
    let other = VolumePair { target: pair("b", &[4, 8]).target, ..pair("a", &[4, 9]) };
    assert_eq!(
        refused(vec![other], PatchConfig::new(&[2, 2], 1)),
        "`target` has 2 frames of [4, 8]; expected 2 frames of [4, 9], as `a` has"
    );
    let raster = |label: u8| Raster::try_new(1, &[2, 3], vec![0, 1, 2, 0, label, 0]).unwrap();
    let volume = |name: &str, label| {
        Arc::new(Volume::try_new(name, vec![raster(0), raster(label)], [None; 3]).unwrap())
    };
    let pair = |label| VolumePair {
        input: volume("in", 0),
        target: VolumeTarget::Labels(volume("mask", label)),
    };
    let config = PatchConfig::new(&[2, 2], 1).with_classes(3);
    assert_eq!(
        refused(vec![pair(200)], config.clone()),
        "`mask` has label 200 at [1, 0, 1, 1]; expected labels below 3"
    );
    assert!(VolumePatches::try_new(vec![pair(2)], config, &mut |_| {}).is_ok());
    let wrong = PatchConfig::new(&[2, 2], 1)
        .with_scales(VolumeScale::Percentile { low: 9.0, high: 1.0 }, VolumeScale::None);
    assert_eq!(
        refused(vec![pair(2)], wrong),
        "`percentile.high` is 1; expected above the lower percentile, 9, and at most 100"
    );
}

#[test]
fn values_that_changed_in_a_file_change_the_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let print = |image: u16, label: u16| {
        for (name, value) in [("image.tif", image), ("mask.tif", label)] {
            let mut values: Vec<u16> = (0..48).map(|at| at % 2).collect();
            values[7] = value;
            let frame = Raster::try_new(1, &[6, 8], values).unwrap();
            let volume = Volume::try_new(name, vec![frame], [None; 3]).unwrap();
            write_volume(path(name), &volume, &TiffWriteConfig::default()).unwrap();
        }
        let [input, mask] = ["image.tif", "mask.tif"]
            .map(|name| open_volume(path(name), &OpenConfig::default()).unwrap());
        let pair = VolumePair { input, target: VolumeTarget::Labels(mask) };
        let config =
            PatchConfig::new(&[4, 4], 2).with_scales(VolumeScale::ZScore, VolumeScale::None);
        patches(vec![pair], config).fingerprint()
    };
    let first = print(1, 1);
    assert_eq!(print(1, 1), first);
    assert_ne!(print(9, 1), first);
    assert_ne!(print(1, 0), first);
}

#[test]
fn drawn_cells_train_and_test_by_position() {
    let folder = tempfile::tempdir().unwrap();
    let config = CellsConfig { sides: vec![6, 64, 64], seed: 3 };
    let files = write_cells(folder.path(), &config, 4, 1, &mut |_| {}).unwrap();
    let listed = VolumeManifest::open(&files.segmentation, Delimiter::Comma).unwrap();
    let open = |split| listed.pairs(Some(split), &OpenConfig::default()).unwrap();
    assert_eq!((open("train").len(), open("test").len()), (3, 1));
    let split = listed.hold_out_positions(0.5, 1).unwrap();
    assert_eq!((split.kept.len(), split.held_out.len()), (2, 2));
    let foreground = Foreground { share: 0.5, above: 0.0 };
    let patch = PatchConfig::new(&[4, 32, 32], 2)
        .with_scales(VolumeScale::ZScore, VolumeScale::None)
        .with_foreground(foreground)
        .with_classes(3);
    let source = Arc::new(patches(open("train"), patch));
    let batch = Loader::from_samples(source, SampleConfig::new(6)).unwrap().epoch(0).next();
    let batch = batch.unwrap().unwrap();
    assert_eq!((batch.len(), batch.sample_shape()), (6, &[2, 4, 32, 32][..]));
    // The same field for the same seed, another one for another.
    let cells = draw_cells(&config, 3).unwrap();
    assert_eq!(cells, draw_cells(&config, 3).unwrap());
    assert_ne!(cells.classes, draw_cells(&config, 2).unwrap().classes);
    let file = Volume::load(&*open("test")[0].input).unwrap();
    assert_eq!(file.frames(), cells.fluorescence.frames());
    assert_eq!(file.spec().voxel_um, [Some(0.3), Some(0.1), Some(0.1)]);
}

#[test]
fn the_positions_at_hand_are_drawn_from() {
    let Some(folder) = shared("microscopy/labelfree2d") else { return };
    let open = |name: &str| {
        let config = OpenConfig { pages: updraft_data::PageAxis::Frames, series: 0 };
        open_volume(folder.join(name), &config).unwrap()
    };
    let pair = VolumePair {
        input: open("pos01_phase.tif"),
        target: VolumeTarget::Image(open("pos01_fluo.tif")),
    };
    assert_eq!((pair.input.spec().frames, pair.input.spec().raster.depth), (10, None));
    let config =
        PatchConfig::new(&[128, 128], 8).with_scales(VolumeScale::ZScore, VolumeScale::ZScore);
    let source = Arc::new(patches(vec![pair], config));
    let batch = Loader::from_samples(source, SampleConfig::new(8)).unwrap().epoch(0).next();
    assert_eq!(batch.unwrap().unwrap().sample_shape(), [1, 128, 128]);
}
