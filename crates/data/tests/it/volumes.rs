//! Volumes in files: as tifffile writes them, as we write them, and what is no volume.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use updraft_data::{
    DataError, JoinedChannels, OpenConfig, PageAxis, PixelType, Pixels, Raster, Region,
    TiffCompression, TiffWriteConfig, Volume, VolumeError, VolumePart, VolumeSource, open_volume,
    write_volume,
};

use crate::files::{encode, message, picture, shared};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name)
}

fn open(name: &str) -> Arc<dyn VolumeSource> {
    open_volume(golden(name), &OpenConfig::default()).unwrap()
}

fn numbers(raster: &Raster<'_>) -> Vec<f32> {
    match raster.pixels() {
        Pixels::U8(values) => values.iter().map(|&value| f32::from(value)).collect(),
        Pixels::U16(values) => values.iter().map(|&value| f32::from(value)).collect(),
        Pixels::F32(values) => values.to_vec(),
    }
}

/// What `golden/volumes.py` puts into a region.
fn expected(region: &Region, channels: usize, is_byte: bool) -> Vec<f32> {
    let [z, y, x] = [0, 1, 2].map(|at| region.origin[at]..region.origin[at] + region.sides[at]);
    let mut values = Vec::new();
    for z in z {
        for y in y.clone() {
            for x in x.clone() {
                for c in 0..channels {
                    let value = 1000 * region.frame + 300 * z + 100 * c + 10 * y + x;
                    values.push(if is_byte { value % 251 } else { value } as f32);
                }
            }
        }
    }
    values
}

#[test]
fn files_of_tifffile_have_their_axes_and_values_in_every_region() {
    for (name, pixel_type, channels, frames, sides, voxel_um) in [
        ("tiles.ome.tif", PixelType::U16, 2, 2, [3, 20, 21], [Some(0.3), Some(0.065), Some(0.065)]),
        ("order.ome.tif", PixelType::U8, 2, 1, [3, 5, 7], [None; 3]),
        ("big.tif", PixelType::F32, 1, 1, [3, 9, 8], [None; 3]),
        ("planar.tif", PixelType::U16, 3, 1, [1, 6, 5], [None; 3]),
        ("samples.ome.tif", PixelType::U8, 3, 1, [1, 6, 5], [None; 3]),
        ("hyperstack.tif", PixelType::U16, 2, 2, [3, 6, 5], [None; 3]),
    ] {
        let volume = open(name);
        let spec = volume.spec();
        assert_eq!(
            (spec.raster.pixel_type, spec.raster.channels),
            (pixel_type, channels),
            "{name}"
        );
        assert_eq!((spec.frames, spec.sides(), spec.voxel_um), (frames, sides, voxel_um), "{name}");
        assert_eq!(spec.raster.depth, (sides[0] > 1).then_some(sides[0]), "{name}");
        for frame in 0..frames {
            // From the last frame and slice to the first, in pieces that cut strips and tiles.
            for region in [
                spec.frame(frames - 1 - frame),
                Region { frame, origin: [sides[0] - 1, 1, 2], sides: [1, 4, 3] },
                Region { frame, origin: [0, sides[1] - 3, 0], sides: [sides[0], 3, 1] },
            ] {
                let got = volume.read(&region).unwrap();
                let expected = expected(&region, channels, pixel_type == PixelType::U8);
                assert_eq!(numbers(&got), expected, "{name} {region:?}");
            }
        }
    }
}

#[test]
fn one_axis_of_imagej_is_what_the_configuration_says() {
    // ImageJ users store frames as slices, too.
    for (pages, expected) in [
        (PageAxis::Depth, (1, 1, [3, 6, 5])),
        (PageAxis::Frames, (3, 1, [1, 6, 5])),
        (PageAxis::Channels, (1, 3, [1, 6, 5])),
    ] {
        let config = OpenConfig { pages, ..OpenConfig::default() };
        let spec = *open_volume(golden("frames.tif"), &config).unwrap().spec();
        assert_eq!((spec.frames, spec.raster.channels, spec.sides()), expected);
    }
}

#[test]
fn a_hyperstack_that_claims_other_pages_is_refused() {
    let bytes = fs::read(golden("hyperstack.tif")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (claim, expected) in [
        (b"slices=4", "channels, slices and frames of ImageJ's description is 2x4x2"),
        (b"slices=x", "`slices` of ImageJ's description is x"),
        (b"images=9", "`images` of ImageJ's description is 92; expected 12"),
    ] {
        let mut lying = bytes.clone();
        let at = bytes.windows(7).position(|part| part == &claim[..7]).unwrap();
        lying[at..at + 8].copy_from_slice(claim);
        let path = dir.path().join("lying.tif");
        fs::write(&path, lying).unwrap();
        let error = open_volume(&path, &OpenConfig::default()).map(drop).unwrap_err();
        assert!(message(&error).contains(expected), "{}", message(&error));
    }
}

#[test]
fn threads_read_one_file_at_once() {
    let volume = open("tiles.ome.tif");
    std::thread::scope(|scope| {
        for frame in [0, 1, 1, 0] {
            let volume = &volume;
            scope.spawn(move || {
                for _ in 0..20 {
                    let region = volume.spec().frame(frame);
                    assert_eq!(
                        numbers(&volume.read(&region).unwrap()),
                        expected(&region, 2, false)
                    );
                }
            });
        }
    });
}

fn sample(kind: u8, channels: usize, sides: &[usize], frames: usize) -> Volume {
    let count = channels * sides.iter().product::<usize>();
    let frame = |frame: usize| match kind {
        0 => Raster::try_new(
            channels,
            sides,
            (0..count).map(|at| (at * 7 + frame) as u8).collect::<Vec<_>>(),
        ),
        1 => Raster::try_new(
            channels,
            sides,
            (0..count).map(|at| (at * 777 + frame) as u16).collect::<Vec<_>>(),
        ),
        _ => Raster::try_new(
            channels,
            sides,
            (0..count).map(|at| (at as f32).sin()).collect::<Vec<_>>(),
        ),
    };
    let frames = (0..frames).map(|at| frame(at).unwrap()).collect();
    Volume::try_new("sample", frames, [None, Some(0.5), Some(0.25)]).unwrap()
}

#[test]
fn what_is_written_is_read_back_with_axes_and_voxel_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/volume.ome.tif");
    for (kind, channels, sides, frames) in [
        (0, 1, vec![3, 4], 1),
        (1, 3, vec![5, 7, 9], 2),
        (2, 2, vec![2, 300, 301], 1),
        (1, 2, vec![600, 331], 3),
    ] {
        let volume = sample(kind, channels, &sides, frames);
        for (big, compression) in [
            (None, TiffCompression::None),
            (Some(true), TiffCompression::None),
            (Some(false), TiffCompression::Deflate),
            (Some(true), TiffCompression::Deflate),
        ] {
            let config = TiffWriteConfig { compression, big, software: None };
            write_volume(&path, &volume, &config).unwrap();
            let magic = fs::read(&path).unwrap()[2];
            assert_eq!(magic, if big == Some(true) { 43 } else { 42 });
            let read = open_volume(&path, &OpenConfig::default()).unwrap();
            assert_eq!(read.spec(), volume.spec());
            assert_eq!(Volume::load(&*read).unwrap().frames(), volume.frames());
        }
    }
    // Nothing is left beside the file.
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn pages_without_a_header_are_what_they_are_said_to_be() {
    let path = golden("big.tif");
    let spec = |pages| {
        let volume = open_volume(&path, &OpenConfig { pages, series: 0 }).unwrap();
        (volume.spec().raster.depth, volume.spec().frames, volume.spec().raster.channels)
    };
    assert_eq!(spec(PageAxis::Depth), (Some(3), 1, 1));
    assert_eq!(spec(PageAxis::Frames), (None, 3, 1));
    assert_eq!(spec(PageAxis::Channels), (None, 1, 3));
}

#[test]
fn files_that_lie_are_refused_with_field_and_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path| match open_volume(path, &OpenConfig::default()) {
        Ok(volume) => panic!("{} was opened", volume.spec()),
        Err(error) => message(&error),
    };
    let text = open(&golden("signed.tif"));
    assert!(
        text.ends_with(
            "signed.tif`: BitsPerSample is 16 bits, signed; expected unsigned of 8 or 16 bits, or \
         floating-point of 32"
        ),
        "{text}"
    );
    let file = folder.path().join("a.tif");
    // The first page claims a height of 2³² − 1 rows in the one strip that it has.
    let volume = sample(1, 1, &[4, 6], 1);
    write_volume(&file, &volume, &TiffWriteConfig::default()).unwrap();
    let good = fs::read(&file).unwrap();
    let patched = |tag: u16, value: u32| {
        let mut bytes = good.clone();
        let entry = [tag.to_le_bytes(), 4_u16.to_le_bytes()].concat();
        let at = bytes.windows(4).rposition(|four| four == entry).unwrap();
        bytes[at + 8..at + 12].copy_from_slice(&value.to_le_bytes());
        fs::write(&file, &bytes).unwrap();
        open(&file)
    };
    let text = patched(257, u32::MAX);
    assert!(
        text.contains("page 0: the TIFF is damaged") || text.contains("a strip or tile is"),
        "{text}"
    );
    let text = patched(279, 1 << 30);
    assert!(text.contains("the place of a strip or tile is bytes 8 to "), "{text}");
    let text = patched(279, 40);
    assert!(
        text.contains("a strip or tile is 6x4 pixels in 40 bytes; expected at most 1 "),
        "{text}"
    );
    let text = patched(256, 7);
    assert!(text.contains("a strip or tile") || text.contains("SizeX and SizeY"), "{text}");
    for cut in [0, 3, 7, 40, good.len() - 100] {
        fs::write(&file, &good[..cut]).unwrap();
        assert!(open(&file).contains("a.tif` "), "{}", open(&file));
        assert!(!open(&file).contains("fill whole buffer"), "{}", open(&file));
    }
    assert!(open(&folder.path().join("no.tif")).contains("no.tif` cannot be opened"));
}

#[test]
fn a_damaged_file_is_not_called_a_tiff_that_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    let png = encode(&picture(1, 4, 6), image::ImageFormat::Png);
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        message(&open_volume(&path, &OpenConfig::default()).map(drop).unwrap_err())
    };
    let text = open(&[&b"\0\0\0\0"[..], &png[4..]].concat());
    let expected = "a.png` cannot be decoded: expected a JPEG, PNG or TIFF, got a file that starts \
                    with 00 00 00 00 0d 0a 1a 0a";
    assert!(text.ends_with(expected), "{text}");
    for bytes in [&png[..3], &png[..40], &b""[..]] {
        let text = open(bytes);
        assert!(text.contains("a.png` cannot be decoded: ") && !text.contains("TIFF is"), "{text}");
    }
}

#[test]
fn channels_of_other_sides_are_not_joined() {
    let volume = |sides: &[usize]| -> Arc<dyn VolumeSource> { Arc::new(sample(1, 1, sides, 1)) };
    let joined = JoinedChannels::try_new(vec![volume(&[4, 5]), volume(&[4, 5])]).unwrap();
    assert_eq!(joined.spec().raster.channels, 2);
    let raster = joined.read(&joined.spec().frame(0)).unwrap();
    assert_eq!(numbers(&raster)[..4], [0.0, 0.0, 777.0, 777.0]);
    let error = JoinedChannels::try_new(vec![volume(&[4, 5]), volume(&[4, 6])]).err().unwrap();
    assert_eq!(
        message(&error),
        "`sample` has 1 frame of u16 1 channel of 4x6; expected 1 frame of u16 1 channel of 4x5, \
         as `sample` has"
    );
    let part = VolumePart::try_new(volume(&[4, 5]), [None, None, Some(1..3), Some(2..5)]).unwrap();
    assert_eq!(part.spec().sides(), [1, 2, 3]);
    let region = Region { frame: 0, origin: [0, 1, 1], sides: [1, 1, 2] };
    let direct = Region { frame: 0, origin: [0, 2, 3], sides: [1, 1, 2] };
    assert_eq!(part.read(&region).unwrap(), volume(&[4, 5]).read(&direct).unwrap());
    let beyond =
        VolumePart::try_new(volume(&[4, 5]), [None, None, None, Some(2..6)]).err().unwrap();
    let DataError::Volume(cause) = &beyond else { panic!("{beyond}") };
    assert!(matches!(**cause, VolumeError::Field { .. }), "{beyond}");
    assert!(message(&beyond).contains("the range of x is 2..6; expected"), "{beyond}");
}

#[test]
fn a_tiff_whose_tag_claims_more_than_the_file_is_refused_before_anything_is_allocated() {
    // A directory at byte 8 with one tag: 4294967295 numbers of four bytes as the strips' lengths.
    let mut bytes =
        b"II*\0\x08\0\0\0\x01\0\x17\x01\x04\0\xff\xff\xff\xff\x08\0\0\0\0\0\0\0".to_vec();
    bytes.resize(640, 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tif");
    fs::write(&path, bytes).unwrap();
    let mut found = None;
    let used = allocation_counter::measure(|| {
        found = Some(open_volume(&path, &OpenConfig::default()).err().unwrap());
    });
    let error = found.unwrap();
    assert!(
        message(&error).contains("17179869180 bytes; expected at most the 640 bytes"),
        "{error}"
    );
    assert!(used.bytes_max < 1 << 16, "{} bytes", used.bytes_max);
}

#[test]
fn the_microscopy_at_hand_is_read() {
    let Some(folder) = shared("microscopy") else { return };
    for (file, sides) in [
        ("nuclei3d/nuclei.tif", [60, 256, 256]),
        ("nuclei3d/nuclei_labels.tif", [60, 256, 256]),
        ("labelfree2d/pos01_phase.tif", [10, 520, 696]),
        ("multichannel2d/nuclei4ch.tif", [4, 1024, 1024]),
    ] {
        let volume = open_volume(folder.join(file), &OpenConfig::default()).unwrap();
        assert_eq!(volume.spec().sides(), sides, "{file}");
        let region = Region { frame: 0, origin: [1, 3, 5], sides: [2, 17, 11] };
        assert_eq!(volume.read(&region).unwrap().pixels().len(), 374);
    }
}
