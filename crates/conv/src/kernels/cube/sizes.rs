//! The sizes of a tensor, and the parts of its channels that cubes compute.

use cubecl::prelude::*;

use super::tiles::{UNITS, cubes};
use crate::kernels::BatchNormShape;

/// The sizes of a contiguous tensor `[batch, channels, pixels]` that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(super) channels: u32,
    pixels: u32,
    /// Numbers of a channel.
    count: u32,
    /// The type of an index into the tensor.
    pub(super) address: AddressType,
}

impl Sizes {
    /// The sizes of a tensor.
    ///
    /// # Panics
    /// If a channel has 2³¹ numbers, or there are 2³² channels.
    pub(crate) fn new(shape: BatchNormShape) -> Self {
        let size = |size: usize| u32::try_from(size).expect("fewer than 2^32 channels and pixels");
        let count = u32::try_from(shape.count()).ok().filter(|&count| count < 1 << 31);
        Self {
            channels: size(shape.channels),
            pixels: size(shape.pixels),
            count: count.expect("fewer than 2^31 numbers of a channel"),
            address: AddressType::from_len(shape.len()),
        }
    }

    /// The numbers of the buffer between the launches of the statistics.
    pub(crate) fn moments_len(self) -> usize {
        self.channels as usize * (2 * self.parts_of_sums().parts as usize + 1)
    }

    /// The numbers of the buffer between the sums of a gradient.
    #[cfg(feature = "autodiff")]
    pub(crate) fn gradient_sums_len(self) -> usize {
        self.channels as usize * 2 * self.parts_of_sums().parts as usize
    }

    /// The parts of channels that are summed: 16 numbers of a unit or more, where the channel has
    /// them, and no more than 128 parts, which one unit adds, or about 2048 cubes, which fill a card.
    /// These limits are not measured.
    pub(super) fn parts_of_sums(self) -> Parts {
        let wanted = self.count.div_ceil(16 * UNITS).min(128).min(2048 / self.channels);
        self.parts(self.count.div_ceil(wanted.max(1)))
    }

    /// The parts of channels whose numbers are computed each by itself: 8 of a unit.
    pub(super) fn parts_of_numbers(self) -> Parts {
        self.parts(8 * UNITS)
    }

    /// Parts of so many numbers; the last one of a channel may have fewer.
    fn parts(self, numbers: u32) -> Parts {
        Parts { sizes: self, parts: self.count.div_ceil(numbers), numbers }
    }
}

/// The parts of each channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    sizes: Sizes,
    /// Parts of a channel.
    parts: u32,
    /// Numbers of a part.
    numbers: u32,
}

impl Parts {
    /// A cube for each part of each channel.
    pub(super) fn cubes(self) -> CubeCount {
        cubes(self.parts as usize * self.sizes.channels as usize)
    }

    /// The argument of kernels.
    pub(super) fn argument(self) -> DivisionLaunch {
        let Self { sizes: Sizes { channels, pixels, count, .. }, parts, numbers } = self;
        DivisionLaunch::new(channels, pixels, count, parts, numbers, UNITS / pixels, UNITS % pixels)
    }
}

/// The parts of channels as an argument of kernels.
#[derive(CubeType, CubeLaunch, Clone)]
#[expand(derive(Clone))]
pub(super) struct Division {
    pub(super) channels: u32,
    pub(super) pixels: u32,
    /// Numbers of a channel.
    pub(super) count: u32,
    /// Parts of a channel.
    pub(super) parts: u32,
    /// Numbers of a part; the last one of a channel may have fewer.
    pub(super) numbers: u32,
    /// From a unit's number to its next one: samples, and pixels beyond them.
    pub(super) samples_on: u32,
    pub(super) pixels_on: u32,
}

/// The index of a number in the tensor.
#[cube]
pub(super) fn index_of(sample: u32, channel: u32, pixel: u32, division: &Division) -> usize {
    let plane = sample as usize * division.channels as usize + channel as usize;
    plane * division.pixels as usize + pixel as usize
}

/// The number after the last one of a part.
#[cube]
pub(super) fn end_of(part: u32, division: &Division) -> u32 {
    min(part * division.numbers + division.numbers, division.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(batch: usize, channels: usize, pixels: usize) -> Sizes {
        Sizes::new(BatchNormShape { batch, channels, pixels })
    }

    #[test]
    fn parts_cover_each_channel_and_none_is_empty() {
        for (batch, channels, pixels) in [
            (1, 1, 1),
            (1, 3, 4095),
            (2, 3, 4097),
            (7, 5000, 4096),
            (128, 64, 112 * 112),
            (1, 1, (1 << 31) - 1),
        ] {
            let sizes = sizes(batch, channels, pixels);
            for parts in [sizes.parts_of_sums(), sizes.parts_of_numbers()] {
                let (whole, numbers) = (u64::from(parts.parts), u64::from(parts.numbers));
                let count = (batch * pixels) as u64;
                assert!(whole * numbers >= count, "{parts:?}");
                assert!((whole - 1) * numbers < count, "{parts:?}");
            }
            assert!(sizes.parts_of_sums().parts <= 128);
        }
        assert_eq!(sizes(2, 3, 4097).parts_of_sums().parts, 3);
        assert_eq!(sizes(2, 3, 4097).moments_len(), 21);
    }

    #[test]
    #[should_panic(expected = "fewer than 2^31 numbers")]
    fn a_channel_that_indices_do_not_reach_is_refused() {
        let _ = sizes(2, 1, 1 << 30);
    }
}
