//! New vectors whose memory several threads touch first, each the piece that it then computes.
#![expect(unsafe_code, reason = "memory that is not initialised yet")]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kernels::parallel::Pieces;

/// A new vector in pieces of one length, which are zeros when they are handed out.
///
/// Writing zeros piece by piece, where the result follows at once, costs a pass over the cache;
/// writing them for the whole vector first costs a pass over the memory, on one thread.
pub(crate) struct Fresh<'a> {
    numbers: &'a mut [MaybeUninit<f32>],
    piece: usize,
    /// How many numbers of the whole vector have been handed out.
    handed_out: &'a AtomicUsize,
}

impl<'a> Pieces for Fresh<'a> {
    type Piece = &'a mut [f32];

    fn count(&self) -> usize {
        self.numbers.len().div_ceil(self.piece)
    }

    fn split(self, pieces: usize) -> (Self, Self) {
        let Self { numbers, piece, handed_out } = self;
        let (first, rest) = numbers.split_at_mut((pieces * piece).min(numbers.len()));
        (Self { numbers: first, piece, handed_out }, Self { numbers: rest, piece, handed_out })
    }

    fn in_order(self) -> impl Iterator<Item = &'a mut [f32]> {
        let handed_out = self.handed_out;
        self.numbers.chunks_mut(self.piece).map(move |piece| {
            for number in piece.iter_mut() {
                number.write(0.0);
            }
            handed_out.fetch_add(piece.len(), Ordering::Relaxed);
            // SAFETY: every number was written above.
            unsafe { piece.assume_init_mut() }
        })
    }
}

/// A vector of `len` numbers in pieces of `piece`, all of which `fill` has to visit.
///
/// # Panics
/// If it did not.
pub(crate) fn fresh(len: usize, piece: usize, fill: impl FnOnce(Fresh<'_>)) -> Vec<f32> {
    let mut vector = Vec::with_capacity(len);
    let handed_out = AtomicUsize::new(0);
    let numbers = &mut vector.spare_capacity_mut()[..len];
    fill(Fresh { numbers, piece, handed_out: &handed_out });
    // Pieces do not overlap, so that as many numbers as there are were all of them.
    assert_eq!(handed_out.into_inner(), len, "every piece of a new vector is visited");
    // SAFETY: they were all written when they were handed out.
    unsafe { vector.set_len(len) };
    vector
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::parallel::over;

    #[test]
    fn every_piece_is_zeros_and_becomes_what_is_written() {
        let vector = fresh(10, 4, |pieces| {
            over(pieces, &mut [(), ()], |index, piece, ()| {
                assert!(piece.iter().all(|&number| number == 0.0));
                piece.fill(index as f32);
            });
        });
        assert_eq!(vector, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0]);
    }

    #[test]
    #[should_panic(expected = "every piece of a new vector is visited")]
    fn a_piece_that_is_left_out_is_noticed() {
        let _ = fresh(10, 4, |pieces| {
            let _ = pieces.split(1).0.in_order().count();
        });
    }
}
