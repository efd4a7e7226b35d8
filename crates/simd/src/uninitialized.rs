//! Results of several threads in new or reused memory.
#![expect(unsafe_code, reason = "memory that is not initialised yet")]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Pieces;

/// A vector in pieces of one length, whose contents are unspecified when a thread receives them.
///
/// In new memory they are zeros. Writing zeros piece by piece, just before the result, costs a
/// pass over the cache; writing them for the whole vector first costs a pass over the
/// memory, on one thread.
#[derive(Debug)]
pub struct Uninitialized<'a> {
    numbers: &'a mut [MaybeUninit<f32>],
    piece: usize,
    /// How many numbers of the whole vector have been handed out; `None` if all are initialised.
    handed_out: Option<&'a AtomicUsize>,
}

impl<'a> Pieces for Uninitialized<'a> {
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
            if let Some(handed_out) = handed_out {
                for number in piece.iter_mut() {
                    number.write(0.0);
                }
                handed_out.fetch_add(piece.len(), Ordering::Relaxed);
            }
            // SAFETY: every number was written above, or was initialised before.
            unsafe { piece.assume_init_mut() }
        })
    }
}

/// A vector of `len` numbers in pieces of `piece`, all of which `fill` has to visit.
///
/// It reuses `memory` if that has this length.
///
/// # Panics
/// If the memory is new and a piece was not visited.
pub fn fill_in_pieces(
    memory: Vec<f32>,
    len: usize,
    piece: usize,
    fill: impl FnOnce(Uninitialized<'_>),
) -> Vec<f32> {
    let mut vector = memory;
    if vector.len() == len {
        let numbers = std::ptr::from_mut(&mut vector[..]) as *mut [MaybeUninit<f32>];
        // SAFETY: the layout is the same, the vector is borrowed meanwhile, and `Uninitialized` hands the
        // numbers out as f32 alone, so that they stay initialised.
        let numbers = unsafe { &mut *numbers };
        fill(Uninitialized { numbers, piece, handed_out: None });
        return vector;
    }
    vector.clear();
    vector.reserve_exact(len);
    let handed_out = AtomicUsize::new(0);
    let numbers = &mut vector.spare_capacity_mut()[..len];
    fill(Uninitialized { numbers, piece, handed_out: Some(&handed_out) });
    // Pieces do not overlap, so that an equal count means that every number was written.
    assert_eq!(handed_out.into_inner(), len, "every piece of a new vector is visited");
    // SAFETY: they were all written when they were handed out.
    unsafe { vector.set_len(len) };
    vector
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::over;

    #[test]
    fn every_piece_becomes_what_is_written_in_new_memory_and_in_old() {
        for (memory, before) in [(Vec::new(), 0.0), (vec![7.0; 10], 7.0), (vec![7.0; 9], 0.0)] {
            let vector = fill_in_pieces(memory, 10, 4, |pieces| {
                over(pieces, &mut [(), ()], |index, piece, ()| {
                    assert!(piece.iter().all(|&number| number == before));
                    piece.fill(index as f32);
                });
            });
            assert_eq!(vector, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0]);
        }
    }

    #[test]
    #[should_panic(expected = "every piece of a new vector is visited")]
    fn a_piece_that_is_left_out_is_noticed() {
        let _ = fill_in_pieces(Vec::new(), 10, 4, |pieces| {
            let _ = pieces.split(1).0.in_order().count();
        });
    }
}
