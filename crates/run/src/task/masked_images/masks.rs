//! Batches of images with a random mask for each.

use std::ops::Range;

use serde_json::Value;
use updraft_data::TensorBatch;
use updraft_models::random_order;
use updraft_trainer::{BatchStream, EpochPart, EpochStream, StreamError};

/// Images, and for each the order of its tokens: the visible ones, then the masked ones.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MaskedBatch {
    pub(super) images: TensorBatch,
    pub(super) orders: Vec<Vec<usize>>,
}

/// Random masks: a function of the seed, the image's index and, in training, the epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Masks {
    pub(super) seed: u64,
    /// Tokens of an image.
    pub(super) tokens: usize,
}

impl Masks {
    /// The order of an image's tokens in an epoch; without one, that of every evaluation.
    pub(super) fn order(self, epoch: Option<u64>, index: usize) -> Vec<usize> {
        let epoch = epoch.map_or(0, |epoch| epoch + 1);
        // Odd constants of L'Ecuyer 1999, table 4, and of the golden ratio separate the streams.
        let seed = self.seed.wrapping_mul(0xD134_2543_DE82_EF95);
        let seed = seed.wrapping_add(epoch.wrapping_mul(0x27BB_2EE6_87B0_B0FD)).rotate_left(23);
        let seed = seed.wrapping_add((index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        random_order(seed, self.tokens)
    }
}

/// Images of another stream with masks.
pub(super) struct MaskedStream {
    pub(super) images: Box<dyn BatchStream<TensorBatch>>,
    pub(super) masks: Masks,
    /// Whether every epoch has masks of its own.
    pub(super) varies: bool,
}

impl MaskedStream {
    fn masked<'a>(
        &self,
        epoch: u64,
        images: Box<dyn EpochStream<TensorBatch> + 'a>,
    ) -> Box<dyn EpochStream<MaskedBatch> + 'a> {
        let epoch = self.varies.then_some(epoch);
        Box::new(MaskedEpoch { images, masks: self.masks, epoch })
    }
}

impl BatchStream<MaskedBatch> for MaskedStream {
    fn epoch(&self, epoch: u64) -> Box<dyn EpochStream<MaskedBatch> + '_> {
        self.masked(epoch, self.images.epoch(epoch))
    }

    fn resume(
        &self,
        epoch: u64,
        state: &Value,
    ) -> Result<Box<dyn EpochStream<MaskedBatch> + '_>, StreamError> {
        Ok(self.masked(epoch, self.images.resume(epoch, state)?))
    }

    fn check_state(&self, state: &Value) -> Result<(), StreamError> {
        self.images.check_state(state)
    }

    fn epoch_part(
        &self,
        epoch: u64,
        batches: Range<usize>,
    ) -> Result<EpochPart<'_, MaskedBatch>, StreamError> {
        let images = self.images.epoch_part(epoch, batches)?;
        Ok(images.map_stream(|images| self.masked(epoch, images)))
    }

    fn batches(&self) -> usize {
        self.images.batches()
    }

    fn samples(&self) -> usize {
        self.images.samples()
    }

    fn batch(&self) -> usize {
        self.images.batch()
    }

    fn read_ahead(&self) -> usize {
        self.images.read_ahead()
    }
}

struct MaskedEpoch<'a> {
    images: Box<dyn EpochStream<TensorBatch> + 'a>,
    masks: Masks,
    epoch: Option<u64>,
}

impl Iterator for MaskedEpoch<'_> {
    type Item = Result<MaskedBatch, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        let masked = |images: TensorBatch| {
            let order = |&index: &usize| self.masks.order(self.epoch, index);
            MaskedBatch { orders: images.indices().iter().map(order).collect(), images }
        };
        Some(self.images.next()?.map(masked))
    }
}

impl EpochStream<MaskedBatch> for MaskedEpoch<'_> {
    fn state(&self) -> Value {
        self.images.state()
    }

    fn left_out(&self) -> usize {
        self.images.left_out()
    }

    fn is_ready(&self) -> bool {
        self.images.is_ready()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_other_images_is_refused_before_a_batch_is_prepared() {
        struct Refusing;

        impl BatchStream<TensorBatch> for Refusing {
            fn epoch(&self, _: u64) -> Box<dyn EpochStream<TensorBatch> + '_> {
                unreachable!("no batch is asked for")
            }

            fn check_state(&self, state: &Value) -> Result<(), StreamError> {
                Err(format!("{state} is another").into())
            }

            fn batches(&self) -> usize {
                1
            }

            fn samples(&self) -> usize {
                1
            }

            fn batch(&self) -> usize {
                1
            }
        }

        let masks = Masks { seed: 1, tokens: 64 };
        let stream = MaskedStream { images: Box::new(Refusing), masks, varies: true };
        let error = stream.check_state(&Value::from(7)).expect_err("refused");
        assert_eq!(error.to_string(), "7 is another");
    }

    #[test]
    fn masks_differ_by_seed_image_and_epoch_and_repeat_in_evaluations() {
        let masks = Masks { seed: 1, tokens: 64 };
        let mut seen = Vec::new();
        for seed in 0..3 {
            for epoch in [None, Some(0), Some(1)] {
                for index in 0..3 {
                    seen.push(Masks { seed, ..masks }.order(epoch, index));
                }
            }
        }
        let all = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all);
        assert_eq!(masks.order(None, 5), masks.order(None, 5));
    }
}
