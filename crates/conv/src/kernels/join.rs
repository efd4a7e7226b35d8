//! A copy of the channels of two tensors into one.

use updraft_simd::{Pieces, over, threads};

/// The sizes of two tensors whose channels are joined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joining {
    /// Samples.
    pub(crate) batch: usize,
    /// Channels of each.
    pub(crate) channels: [usize; 2],
    /// Numbers of a sample in a channel.
    pub(crate) pixels: usize,
}

impl Joining {
    /// Numbers of both.
    pub(crate) const fn len(&self) -> usize {
        self.batch * (self.channels[0] + self.channels[1]) * self.pixels
    }

    /// Copies both into feature maps of `pixels` numbers.
    pub(crate) fn join_into<'a>(
        &self,
        [a, b]: [&[f32]; 2],
        joined: impl Pieces<Piece = &'a mut [f32]>,
        asked_threads: usize,
    ) {
        let [of_a, of_b] = self.channels;
        over(joined, &mut vec![(); threads(asked_threads)], |plane, to, ()| {
            let (sample, channel) = (plane / (of_a + of_b), plane % (of_a + of_b));
            let (from, index) = match channel.checked_sub(of_a) {
                None => (a, sample * of_a + channel),
                Some(channel) => (b, sample * of_b + channel),
            };
            to.copy_from_slice(&from[index * self.pixels..][..self.pixels]);
        });
    }
}
