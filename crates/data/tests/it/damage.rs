//! Every reader under seeded mutations of good files: a value or a typed error, never a panic.
//!
//! The same functions are the targets in `fuzz/`.

use std::fs;
use std::path::Path;

use image::ImageFormat;
use updraft_data::{
    CacheUse, CifarFiles, CifarLabels, CifarPart, CifarRecords, Cue, Delimiter, FileImages,
    FileSamples, FitConfig, GeneratedConfig, GeneratedImages, IdxArray, ImageSource,
    InMemorySamples, OpenConfig, Raster, Sample, SampleSource, SampleTarget, Table, TableEncoder,
    TableSchema, TarImages, decode, open_volume,
};

use crate::files::{contents, encode, gzip, jpeg, picture, tar, two_classes};

/// `SplitMix64` (Steele, Lea and Flood, 2014).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % sides.max(1) as u64) as usize
    }

    /// One to four changes: bits, bytes at their limits, cuts, doubled or removed pieces.
    fn damage(&mut self, good: &[u8]) -> Vec<u8> {
        let mut bytes = good.to_vec();
        for _ in 0..1 + self.roll(4) {
            let at = self.roll(bytes.len());
            let end = at + self.roll((bytes.len() - at).min(64));
            match self.roll(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.roll(8),
                1 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][self.roll(5)],
                2 => bytes.truncate(at),
                3 => {
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                4 => drop(bytes.drain(at..end)),
                _ => {
                    for byte in &mut bytes[at..end] {
                        *byte = self.roll(256) as u8;
                    }
                }
            }
        }
        bytes
    }
}

/// Reads damaged copies of good files; counts how many were still read.
fn survive(seed: u64, rounds: usize, good: &[Vec<u8>], mut read: impl FnMut(&[u8]) -> bool) {
    let mut dice = Dice(seed);
    let mut read_all_the_same = 0;
    for bytes in good {
        assert!(read(bytes), "the undamaged file is read");
        for _ in 0..rounds {
            read_all_the_same += usize::from(read(&dice.damage(bytes)));
        }
    }
    let all = rounds * good.len();
    assert!(read_all_the_same < all, "damage never showed in {all} files");
}

#[test]
fn damaged_images_are_decoded_or_refused() {
    let small = picture(1, 12, 16);
    let deep = image::DynamicImage::ImageRgb8(small.clone()).into_rgb16();
    let mut deep_bytes = std::io::Cursor::new(Vec::new());
    deep.write_to(&mut deep_bytes, ImageFormat::Tiff).unwrap();
    let good = [
        jpeg(1),
        encode(&small, ImageFormat::Png),
        encode(&small, ImageFormat::Tiff),
        deep_bytes.into_inner(),
    ];
    survive(1, 1500, &good, |bytes| {
        let image = decode(bytes, "damaged");
        image.is_ok_and(|image| image.pixels().len() == 3 * image.height() * image.width())
    });
}

#[test]
fn damaged_volumes_are_read_or_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("damaged.tif");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden");
    let names = ["tiles.ome.tif", "order.ome.tif", "big.tif", "planar.tif", "samples.ome.tif"];
    let good = names.map(|name| fs::read(golden.join(name)).unwrap());
    survive(8, 400, &good, |bytes| {
        fs::write(&path, bytes).unwrap();
        let Ok(volume) = open_volume(&path, &OpenConfig::default()) else { return false };
        let spec = *volume.spec();
        (0..spec.frames).all(|frame| volume.read(&spec.frame(frame)).is_ok())
    });
}

#[test]
fn damaged_idx_files_are_read_or_refused() {
    let header = |code: u8| [0, 0, code, 2, 0, 0, 0, 4, 0, 0, 0, 2];
    let good: Vec<Vec<u8>> = [(0x08, 8), (0x0B, 16), (0x0D, 32), (0x0E, 64)]
        .map(|(code, body)| [&header(code)[..], &vec![9; body]].concat())
        .to_vec();
    survive(2, 5000, &good, |bytes| {
        let array = IdxArray::parse(bytes);
        // An axis of length 0 makes an array without values, whatever the others claim.
        array.is_ok_and(|array| {
            array.shape.contains(&0) || array.shape.iter().product::<usize>() <= bytes.len()
        })
    });
}

#[test]
fn damaged_cifar_files_are_read_or_refused() {
    let record: Vec<u8> = (0..3073).map(|at| (at % 10) as u8).collect();
    survive(3, 2000, &[[record.clone(), record].concat()], |bytes| {
        let mut records = CifarRecords::default();
        let read = records.extend(bytes, CifarLabels::Ten).is_ok();
        assert_eq!(records.pixels.len(), 3072 * records.labels.len());
        assert!(records.pixels.len() <= bytes.len());
        read
    });
}

#[test]
fn damaged_cifar_archives_are_read_or_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("damaged.tar");
    let names = |count: usize| (0..count).flat_map(|at| format!("{at}\n").into_bytes()).collect();
    let whole = tar(&[
        ("c/fine_label_names.txt", names(100)),
        ("c/train.bin", vec![7; 3074]),
        ("c/test.bin", vec![7; 2 * 3074]),
    ]);
    survive(7, 600, &[whole.clone(), gzip(&whole)], |bytes| {
        fs::write(&path, bytes).unwrap();
        let Ok(files) = CifarFiles::open(&path, &mut |_| {}) else { return false };
        [(CifarPart::Train, 1), (CifarPart::Test, 2)].into_iter().all(|(part, expected)| {
            let images = files.images(CifarLabels::Fine, part);
            images.is_ok_and(|images| images.len() == expected)
        })
    });
}

#[test]
fn damaged_archives_are_indexed_or_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("damaged.tar");
    let whole = tar(&two_classes());
    survive(4, 800, &[whole.clone(), gzip(&whole)], |bytes| {
        fs::write(&path, bytes).unwrap();
        let Ok(images) = TarImages::open_within(&path, 1 << 22, &mut |_| {}) else { return false };
        (0..images.len()).all(|index| images.read(index).is_ok())
    });
}

#[test]
fn a_damaged_image_cache_is_never_read() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("cache");
    let config = GeneratedConfig::new(Cue::Color, 4).with_size(16, 16);
    let source = GeneratedImages::try_new(config).unwrap();
    let open = || FileImages::open(&source, Some((4, 4)), &path, 1, &mut |_| {}).unwrap();
    let expected = contents(&open().0);
    let whole = fs::read(&path).unwrap();
    survive(5, 300, std::slice::from_ref(&whole), |bytes| {
        fs::write(&path, bytes).unwrap();
        let (images, used) = open();
        assert_eq!(contents(&images), expected);
        assert_eq!(used == CacheUse::Reused, bytes == whole);
        used == CacheUse::Reused
    });
}

#[test]
fn a_damaged_cache_of_samples_is_never_read() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("cache");
    let sample = |number: u16| {
        let raster = Raster::try_new(1, &[2, 3], vec![number; 6]).unwrap();
        (format!("sample {number}"), Sample { raster, target: SampleTarget::Class(1) })
    };
    let source = InMemorySamples::try_new((0..3).map(sample).collect()).unwrap();
    let open = || FileSamples::open(&source, &path, 1, &mut |_| {}).unwrap();
    open();
    let whole = fs::read(&path).unwrap();
    survive(7, 300, std::slice::from_ref(&whole), |bytes| {
        fs::write(&path, bytes).unwrap();
        let (samples, used) = open();
        for index in 0..3 {
            assert_eq!(samples.read(index).unwrap(), source.read(index).unwrap());
        }
        assert_eq!(used == CacheUse::Reused, bytes == whole);
        used == CacheUse::Reused
    });
}

#[test]
fn damaged_tables_are_encoded_or_refused() {
    let good = b"a,b,c\nx,1.5,p|q\ny,?,\n\"x\",-3e4,q\n".to_vec();
    let schema = || TableSchema::new().category("a").number("b").multi_label("c", '|');
    survive(6, 5000, &[good], |bytes| {
        let Ok(table) = Table::parse(bytes, "damaged", Delimiter::Comma, schema()) else {
            return false;
        };
        let encoder = TableEncoder::fit(&table, &[0], FitConfig::default()).unwrap();
        let encoded = encoder.encode(&table).unwrap();
        encoded.numbers("b").unwrap().iter().all(|number| !number.is_nan())
    });
}
