//! Random numbers as a function of purpose, seed, epoch and item.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The purpose of the numbers: two purposes never share a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Order = 1,
    Augment = 2,
    Split = 3,
    Generate = 4,
    MixUp = 5,
    Patch = 6,
    Formula = 8,
    Interactions = 9,
    Cells = 10,
    EveryEpoch = 11,
    Labels = 12,
    WindowNoise = 13,
}

/// A stream of random numbers that is a function of purpose, seed, epoch and item: `ChaCha8`, with
/// distributions implemented here, so that no library update changes the draws.
#[derive(Debug, Clone)]
pub struct Random {
    generator: ChaCha8Rng,
    seed: u64,
    epoch: u64,
    item: u64,
}

impl Random {
    /// The stream from which a loader augments a sample, to try a transform outside of a loader.
    #[must_use]
    pub fn for_augment(seed: u64, epoch: u64, index: usize) -> Self {
        Self::new(Purpose::Augment, seed, epoch, index as u64)
    }

    /// The stream of one item (a sample, a class) in one epoch.
    pub(crate) fn new(purpose: Purpose, seed: u64, epoch: u64, item: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&epoch.to_le_bytes());
        key[16] = purpose as u8;
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(item);
        Self { generator, seed, epoch, item }
    }

    /// The epoch of the stream, counted from 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Another stream of the same seed and item, which is the same in every epoch.
    #[must_use]
    pub fn of_every_epoch(&self) -> Self {
        Self::new(Purpose::EveryEpoch, self.seed, 0, self.item)
    }

    /// Uniform in `0..bound`; the bias is below `bound / 2⁶⁴`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.generator.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `low..high`, in steps of `(high − low) / 2²⁴`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.generator.next_u32() >> 8) as f32 / 16_777_216.0)
    }

    /// Uniform between 0 and 1, never either, in steps of 2⁻⁵³.
    pub fn open_unit(&mut self) -> f64 {
        ((self.generator.next_u64() >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
    }

    /// From the standard normal distribution, by the polar method of Marsaglia and Bray 1964.
    pub(crate) fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.open_unit() - 1.0, 2.0 * self.open_unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }

    /// True half of the time.
    pub fn coin(&mut self) -> bool {
        self.generator.next_u32() >> 31 == 1
    }

    /// Approximately normal with mean 0 and standard deviation 1, never beyond ±√12 ≈ ±3.46.
    ///
    /// The sum of four uniform bytes: its mean is 510 and its variance 4·(256² − 1)/12.
    pub fn bell(&mut self) -> f32 {
        let sum: u16 = self.generator.next_u32().to_le_bytes().into_iter().map(u16::from).sum();
        (f32::from(sum) - 510.0) / 147.799_86
    }

    /// Shuffles `items` (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coordinate_selects_another_stream() {
        let first =
            |purpose, seed, epoch, item| Random::new(purpose, seed, epoch, item).below(1 << 60);
        let draws = [
            first(Purpose::Order, 0, 0, 0),
            first(Purpose::Augment, 0, 0, 0),
            first(Purpose::Order, 1, 0, 0),
            first(Purpose::Order, 0, 1, 0),
            first(Purpose::Order, 0, 0, 1),
        ];
        for (at, draw) in draws.iter().enumerate() {
            assert!(!draws[at + 1..].contains(draw), "{draws:?}");
        }
    }

    #[test]
    fn a_stream_of_every_epoch_depends_on_seed_and_item_alone() {
        let draw = |seed, epoch, item| {
            let mut own = Random::for_augment(seed, epoch, item);
            assert_eq!(own.epoch(), epoch);
            let shared = own.of_every_epoch().below(1 << 60);
            assert_ne!(own.below(1 << 60), shared);
            shared
        };
        assert_eq!(draw(1, 0, 3), draw(1, 7, 3));
        assert_ne!(draw(1, 0, 3), draw(2, 0, 3));
        assert_ne!(draw(1, 0, 3), draw(1, 0, 4));
    }

    #[test]
    fn the_draws_are_golden() {
        let mut random = Random::new(Purpose::Order, 7, 3, 5);
        let draws: Vec<u64> = (0..6).map(|_| random.below(1000)).collect();
        let mut items: Vec<u8> = (0..10).collect();
        random.shuffle(&mut items);
        assert_eq!(draws, [41, 591, 850, 781, 691, 913]);
        assert_eq!(items, [6, 7, 5, 8, 3, 9, 4, 0, 2, 1]);
    }

    #[test]
    fn bell_draws_have_their_stated_moments() {
        let mut random = Random::new(Purpose::Generate, 1, 0, 0);
        let draws: Vec<f64> = (0..40_000).map(|_| f64::from(random.bell())).collect();
        let mean = draws.iter().sum::<f64>() / 40_000.0;
        let variance = draws.iter().map(|draw| draw * draw).sum::<f64>() / 40_000.0;
        // Four standard errors of 40,000 draws: 0.02 for the mean, 0.03 for the variance.
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
        assert!(draws.iter().all(|draw| draw.abs() < 3.4642));
    }
}
