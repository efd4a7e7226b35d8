//! Photographs of many sizes: the center of each for evaluation, random parts for training.

use std::sync::Arc;

use image::ImageFormat;
use updraft_data::{
    CachedImages, CenterCropped, DataError, HorizontalFlip, ImageFolder, ImageSource,
    InMemoryImages, Loader, LoaderConfig, Order, PictureCrop, RandomResizedCrop, Resized, Workers,
};

use crate::files::{contents, encode, folder, picture};

/// Twelve pictures of two classes, each of another size.
fn photographs() -> (tempfile::TempDir, Arc<dyn ImageSource>) {
    copies(1)
}

/// So many files of each of them.
fn copies(of_each: usize) -> (tempfile::TempDir, Arc<dyn ImageSource>) {
    let files: Vec<(String, Vec<u8>)> = (0..12_u8)
        .flat_map(|number| {
            let picture = picture(number, 20 + 3 * u32::from(number), 50 - u32::from(number));
            let (class, bytes) =
                (["a", "b"][usize::from(number % 2)], encode(&picture, ImageFormat::Png));
            (0..of_each).map(move |copy| (format!("{class}/{number:02}-{copy}.png"), bytes.clone()))
        })
        .collect();
    let files: Vec<(&str, Vec<u8>)> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let root = folder(&files);
    let images = Arc::new(ImageFolder::open(root.path()).unwrap());
    (root, images)
}

#[test]
fn the_center_of_every_picture_is_the_same_behind_every_cache() {
    let (_root, pictures) = photographs();
    let centers: Arc<dyn ImageSource> =
        Arc::new(CenterCropped::try_new(pictures.clone(), 16, 12, 1.25).unwrap());
    let expected: Vec<(usize, Vec<u8>)> = (0..pictures.len())
        .map(|index| {
            let picture = pictures.read(index).unwrap().center_crop(16, 12, 1.25);
            assert_eq!(picture.size(), (16, 12));
            (pictures.label(index), picture.into_pixels())
        })
        .collect();
    assert_eq!(contents(&*centers), expected);
    let stretched = Resized::try_new(pictures.clone(), 16, 12).unwrap();
    assert_ne!(contents(&stretched), expected);

    let size = Some((16, 12));
    let whole = InMemoryImages::decode(&*centers, size, 2, &mut |_| {}).unwrap();
    let kept = CachedImages::try_new(centers.clone(), size, 1 << 20).unwrap();
    let read = Resized::try_new(centers.clone(), 16, 12).unwrap();
    for images in [&whole as &dyn ImageSource, &kept, &read] {
        assert_eq!(contents(images), expected);
        assert_eq!(images.fingerprint(), whole.fingerprint());
    }
    // Another size, another factor and the stretched pictures are other sets.
    let other = |height, factor| {
        CenterCropped::try_new(pictures.clone(), height, 12, factor).unwrap().fingerprint()
    };
    let mut sets = vec![other(16, 1.25), other(16, 1.5), other(12, 1.25), stretched.fingerprint()];
    assert_eq!(sets[0], centers.fingerprint());
    sets.sort_unstable();
    sets.dedup();
    assert_eq!(sets.len(), 4);
}

#[test]
fn a_factor_below_one_or_without_bound_is_refused() {
    let (_root, pictures) = photographs();
    for factor in [0.99, 16.5, f64::NAN] {
        let refused = CenterCropped::try_new(pictures.clone(), 16, 16, factor).err();
        assert!(matches!(refused, Some(DataError::Setting { name: "factor", .. })), "{factor}");
    }
    assert!(CenterCropped::try_new(pictures, 0, 16, 1.0).is_err());
}

/// Shuffled batches of random parts.
fn parts(workers: usize, min_area: f32) -> LoaderConfig {
    let crop = RandomResizedCrop { min_area, max_stretch: 1.3 };
    LoaderConfig::new(4)
        .with_order(Order::Shuffled)
        .with_seed(3)
        .with_workers(Workers::Count(workers))
        .with_crop(PictureCrop { crop, height: 16, width: 12 })
        .with_augment(vec![Arc::new(HorizontalFlip)])
}

#[test]
fn random_parts_of_pictures_of_any_size_are_the_same_for_any_workers_and_resume_exactly() {
    let (_root, pictures) = photographs();
    let loader = Loader::try_new(pictures.clone(), parts(0, 0.3)).unwrap();
    let epoch = |number| loader.epoch(number).map(Result::unwrap).collect::<Vec<_>>();
    let first = epoch(0);
    assert_eq!((first.len(), first[0].shape()), (3, [4, 3, 16, 12]));
    assert_ne!(first[0].planes(), epoch(1)[0].planes());
    for workers in [1, 3] {
        // Decoded pictures that are kept at their own sizes change nothing.
        let kept = Arc::new(CachedImages::try_new(pictures.clone(), None, 1 << 20).unwrap());
        let other = Loader::try_new(kept, parts(workers, 0.3)).unwrap();
        assert_eq!(other.epoch(0).map(Result::unwrap).collect::<Vec<_>>(), first);
        let mut stopped = other.epoch(0);
        stopped.next().unwrap().unwrap();
        let rest = loader.resume(&stopped.state()).unwrap().map(Result::unwrap);
        assert_eq!(rest.collect::<Vec<_>>(), first[1..]);
        // Within an epoch, other parts are not a continuation.
        let changed = Loader::try_new(pictures.clone(), parts(workers, 0.4)).unwrap();
        assert!(changed.resume(&stopped.state()).is_err());
    }
}

#[test]
fn pictures_of_several_sizes_need_a_crop_and_a_crop_a_valid_setting() {
    let (_root, pictures) = photographs();
    let without = Loader::try_new(pictures.clone(), LoaderConfig::new(4)).unwrap();
    let error = without.epoch(0).find_map(Result::err).expect("sizes differ");
    assert!(matches!(error, DataError::ImageSize { .. }), "{error}");
    let refused = Loader::try_new(pictures.clone(), parts(0, 0.0)).unwrap_err();
    assert!(matches!(refused, DataError::Setting { .. }), "{refused}");
    let crop = PictureCrop { crop: RandomResizedCrop::default(), height: 0, width: 12 };
    let config = LoaderConfig::new(4).with_crop(crop);
    assert!(Loader::try_new(pictures, config).is_err());
}

#[test]
fn memory_of_an_epoch_does_not_grow_with_the_number_of_pictures() {
    let peak = |of_each: usize| {
        let (_root, pictures) = copies(of_each);
        let loader = Loader::try_new(pictures, parts(0, 0.3)).unwrap();
        let deliver = |epoch| -> usize {
            loader.epoch(epoch).map(|batch| batch.unwrap().labels().len()).sum()
        };
        // The first epoch leaves buffers behind.
        let samples = deliver(0);
        assert_eq!(samples, 12 * of_each);
        let mut again = 0;
        let used = allocation_counter::measure(|| again = deliver(1));
        assert_eq!(again, samples);
        used.bytes_max
    };
    let (few, many) = (peak(1), peak(20));
    // Kept, the pictures that are more would be 1,086,534 bytes.
    // An epoch has the order of its samples, of eight bytes each, and one more picture at most.
    assert!(many < few + 40_000, "{many} bytes for 240 pictures, {few} for 12");
}
