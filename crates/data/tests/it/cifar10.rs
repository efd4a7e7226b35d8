//! Real images: CIFAR-10 as JPEGs in archives, where they are at hand.

use updraft_data::{ImageSource, InMemoryImages, TarImages};

use crate::files::shared;

#[test]
fn the_test_archive_decodes_whole() {
    let Some(path) = shared("cifar10/test.tar.gz") else { return };
    let archive = TarImages::open(path, &mut |_| {}).unwrap();
    assert_eq!(archive.len(), 10_000);
    let images = InMemoryImages::decode(&archive, None, 2, &mut |_| {}).unwrap();
    assert_eq!(images.size(), (32, 32));
    assert_eq!(
        images.classes(),
        ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    );
    let mut counts = [0; 10];
    for index in 0..images.len() {
        counts[images.label(index)] += 1;
    }
    assert_eq!(counts, [1000; 10]);
    // The mean color of the test images, published as (0.4942, 0.4851, 0.4504) for the originals.
    let mut sums = [0_u64; 3];
    for index in 0..images.len() {
        for pixel in images.read(index).unwrap().pixels().chunks(3) {
            for (sum, &value) in sums.iter_mut().zip(pixel) {
                *sum += u64::from(value);
            }
        }
    }
    let means = sums.map(|sum| sum as f64 / (255.0 * 1024.0 * 10_000.0));
    for (mean, expected) in means.into_iter().zip([0.4942, 0.4851, 0.4504]) {
        assert!((mean - expected).abs() < 0.002, "{means:?}");
    }
}
