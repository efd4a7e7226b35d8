//! The pieces that each thread has left, which threads without any take over.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Pieces;

/// Neighboring pieces, at least one, and the index of the first.
type Range<P> = (usize, P);

/// The pieces that no thread has begun: a range for each thread, `None` where nothing is left.
///
/// A thread takes half of its own range at a time, then half of that of the next thread that has
/// pieces.
///
/// # Source
/// Affinity scheduling of Markatos and Le Blanc 1994, IEEE Transactions on Parallel and Distributed
/// Systems 5, 379, with other shares and another choice of the thread to take from.
pub(super) struct Shares<P>(Vec<Mutex<Option<Range<P>>>>);

impl<P: Pieces> Shares<P> {
    /// Divides at least one piece a thread; the first ranges have one more if the number of pieces
    /// is not a multiple.
    pub(super) fn new(pieces: P, threads: usize) -> Self {
        let (each, more) = (pieces.count() / threads, pieces.count() % threads);
        let mut shares = Vec::with_capacity(threads);
        let (mut first, mut rest) = (0, pieces);
        for thread in 0..threads {
            let count = each + usize::from(thread < more);
            let (own, others) = rest.split(count);
            shares.push(Mutex::new(Some((first, own))));
            (first, rest) = (first + count, others);
        }
        Self(shares)
    }

    /// The next pieces of a thread, of its own or of another's; `None` if all are begun.
    pub(super) fn next(&self, thread: usize) -> Option<Range<P>> {
        if let Some(own) = Self::first_half(&mut self.share(thread)) {
            return Some(own);
        }
        // Not under the own lock: two threads that take from each other would wait forever.
        let mut taken = self.of_another(thread);
        let now = Self::first_half(&mut taken);
        if taken.is_some() {
            *self.share(thread) = taken;
        }
        now
    }

    /// Takes the first half of a range, at least one piece.
    fn first_half(range: &mut Option<Range<P>>) -> Option<Range<P>> {
        let (first, pieces) = range.take()?;
        let now = pieces.count().div_ceil(2);
        let (pieces, later) = pieces.split(now);
        if later.count() > 0 {
            *range = Some((first + now, later));
        }
        Some((first, pieces))
    }

    /// The second half of what the next thread with pieces has left, at least one.
    fn of_another(&self, thread: usize) -> Option<Range<P>> {
        let threads = self.0.len();
        (1..threads).find_map(|step| {
            let mut share = self.share((thread + step) % threads);
            let (first, pieces) = share.take()?;
            let kept = pieces.count() / 2;
            let (own, taken) = pieces.split(kept);
            if kept > 0 {
                *share = Some((first, own));
            }
            Some((first + kept, taken))
        })
    }

    /// No panic leaves a range in between, since no work runs under the lock.
    fn share(&self, thread: usize) -> MutexGuard<'_, Option<Range<P>>> {
        self.0[thread].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices that threads take if each call of `next` is by the thread in `order`.
    fn taken(pieces: usize, threads: usize, order: &[usize]) -> Vec<(usize, Vec<usize>)> {
        let shares = Shares::new((0..pieces).collect::<Vec<_>>(), threads);
        let mut taken = Vec::new();
        for &thread in order {
            if let Some((first, pieces)) = shares.next(thread) {
                assert_eq!(pieces[0], first);
                taken.push((thread, pieces));
            }
        }
        assert!((0..threads).all(|thread| shares.next(thread).is_none()));
        taken
    }

    #[test]
    fn threads_that_are_equally_fast_keep_their_ranges() {
        let expected = [(0, vec![0, 1]), (1, vec![4, 5]), (0, vec![2]), (1, vec![6]), (0, vec![3])];
        assert_eq!(taken(7, 2, &[0, 1, 0, 1, 0]), expected);
    }

    #[test]
    fn a_thread_without_pieces_takes_half_of_what_another_has_left() {
        let expected = [
            (0, vec![0, 1]),
            (0, vec![2]),
            (0, vec![3]),
            (0, vec![6]),
            (0, vec![7]),
            (1, vec![4]),
            (0, vec![5]),
        ];
        assert_eq!(taken(8, 2, &[0, 0, 0, 0, 0, 1, 0]), expected);
    }

    #[test]
    fn every_piece_is_taken_once_in_any_order() {
        for (pieces, threads) in [(1, 1), (3, 3), (10, 3), (64, 4), (65, 7)] {
            for stride in 1..=threads {
                let order: Vec<_> = (0..400).map(|call| call * stride % threads).collect();
                let mut all: Vec<_> =
                    taken(pieces, threads, &order).into_iter().flat_map(|(_, p)| p).collect();
                all.sort_unstable();
                assert_eq!(all, (0..pieces).collect::<Vec<_>>(), "{threads} threads");
            }
        }
    }
}
