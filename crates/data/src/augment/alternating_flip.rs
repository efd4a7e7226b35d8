//! Mirroring left and right in every second epoch.

use crate::augment::{Augment, Axis, Canvas};
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// Mirrors every sample, left and right, in exactly every second epoch.
///
/// Each sample is mirrored in the first epoch with probability 1/2, and otherwise in the second. Two successive epochs show each sample both ways, where independent coins show half of
/// the samples twice the same way.
///
/// # Source
/// Jordan 2024, arXiv:2404.00498, section 3.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlternatingFlip;

impl Augment for AlternatingFlip {
    fn validate(&self, _: &RasterSpec) -> Result<(), DataError> {
        Ok(())
    }

    fn describe(&self, digest: Digest) -> Digest {
        digest.text("alternating flip")
    }

    fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
        let is_odd = random.epoch() % 2 == 1;
        if random.of_every_epoch().coin() != is_odd {
            canvas.flip(Axis::Width);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{InMemoryImages, Loader, LoaderConfig, Order};

    fn is_mirrored(epoch: u64, index: usize) -> bool {
        let mut canvas = Canvas::gray(1, 3, &[1, 2, 3]);
        AlternatingFlip.apply(&mut Random::for_augment(5, epoch, index), &mut canvas);
        canvas.channel(0)[0] == 3
    }

    #[test]
    fn every_image_is_mirrored_in_exactly_every_second_epoch() {
        let first: Vec<bool> = (0..1000).map(|index| is_mirrored(0, index)).collect();
        for epoch in 1..7 {
            for (index, first) in first.iter().enumerate() {
                assert_eq!(is_mirrored(epoch, index), first ^ (epoch % 2 == 1), "{epoch} {index}");
            }
        }
        let mirrored = first.iter().filter(|mirrored| **mirrored).count();
        // Four standard deviations of 1000 coins are 63.
        assert!((437..=563).contains(&mirrored), "{mirrored}");
    }

    #[test]
    fn a_shuffled_loader_delivers_both_ways_in_two_successive_epochs() {
        // Image i has the label i and a bright left pixel.
        let classes: Vec<String> = (0..64).map(|class| class.to_string()).collect();
        let pixels = [255, 255, 255, 0, 0, 0].repeat(64);
        let (labels, names) = ((0..64).collect(), classes.clone());
        let images = InMemoryImages::try_from_pixels((1, 2), pixels, labels, names, classes);
        let config = LoaderConfig::new(16)
            .with_order(Order::Shuffled)
            .with_augment(vec![Arc::new(AlternatingFlip)]);
        let loader = Loader::try_new(Arc::new(images.expect("images")), config).expect("settings");
        let mirrored = |epoch| {
            let mut mirrored = [false; 64];
            for batch in loader.epoch(epoch) {
                let batch = batch.expect("whole");
                for (planes, &label) in batch.planes().chunks_exact(6).zip(batch.labels()) {
                    mirrored[label] = planes[0] < planes[1];
                }
            }
            mirrored
        };
        let [even, odd] = [mirrored(4), mirrored(5)];
        assert!(even.iter().zip(&odd).all(|(even, odd)| even != odd));
        assert!(even.contains(&true) && even.contains(&false));
    }

    #[test]
    fn other_random_transforms_of_the_sample_keep_their_draws() {
        let mut random = Random::for_augment(5, 1, 9);
        AlternatingFlip.apply(&mut random, &mut Canvas::gray(1, 2, &[0, 1]));
        assert_eq!(random.below(1 << 60), Random::for_augment(5, 1, 9).below(1 << 60));
    }
}
