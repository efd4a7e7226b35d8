//! Work on several threads, divided so that the division changes no result.

#[cfg(feature = "rayon")]
mod shares;
#[cfg(feature = "rayon")]
mod spin;

/// Work in pieces, each done by one thread.
pub trait Pieces: Send + Sized {
    /// The type of a piece.
    type Piece;

    /// The number of pieces.
    fn count(&self) -> usize;

    /// The first `pieces` of them, and the rest.
    #[must_use]
    fn split(self, pieces: usize) -> (Self, Self);

    /// All of them, in order.
    fn in_order(self) -> impl Iterator<Item = Self::Piece>;
}

/// Tasks.
impl<T: Send> Pieces for Vec<T> {
    type Piece = T;

    fn count(&self) -> usize {
        self.len()
    }

    fn split(mut self, pieces: usize) -> (Self, Self) {
        let rest = self.split_off(pieces.min(self.len()));
        (self, rest)
    }

    fn in_order(self) -> impl Iterator<Item = T> {
        self.into_iter()
    }
}

/// A slice in pieces of one length; the last may be shorter.
#[derive(Debug)]
pub struct Cut<'a, T> {
    numbers: &'a mut [T],
    piece: usize,
}

impl<'a, T> Cut<'a, T> {
    /// Divides a slice into pieces of `piece` numbers, at least 1.
    pub const fn new(numbers: &'a mut [T], piece: usize) -> Self {
        Self { numbers, piece }
    }
}

impl<'a, T: Send> Pieces for Cut<'a, T> {
    type Piece = &'a mut [T];

    fn count(&self) -> usize {
        self.numbers.len().div_ceil(self.piece)
    }

    fn split(self, pieces: usize) -> (Self, Self) {
        let Self { numbers, piece } = self;
        let (first, rest) = numbers.split_at_mut((pieces * piece).min(numbers.len()));
        (Self::new(first, piece), Self::new(rest, piece))
    }

    fn in_order(self) -> impl Iterator<Item = &'a mut [T]> {
        self.numbers.chunks_mut(self.piece)
    }
}

/// A slice in pieces of different lengths.
#[derive(Debug)]
pub struct Uneven<'a, T, F> {
    numbers: &'a mut [T],
    pieces: std::ops::Range<usize>,
    starts: F,
}

impl<'a, T, F: Fn(usize) -> usize> Uneven<'a, T, F> {
    /// Divides a slice so that piece `i` of `pieces` begins at `starts(i)` and ends at `starts(i +
    /// 1)`.
    pub const fn new(numbers: &'a mut [T], pieces: usize, starts: F) -> Self {
        Self { numbers, pieces: 0..pieces, starts }
    }
}

impl<'a, T: Send, F: Fn(usize) -> usize + Clone + Send> Pieces for Uneven<'a, T, F> {
    type Piece = &'a mut [T];

    fn count(&self) -> usize {
        self.pieces.len()
    }

    fn split(self, pieces: usize) -> (Self, Self) {
        let Self { numbers, pieces: all, starts } = self;
        let middle = (all.start + pieces).min(all.end);
        let (first, rest) = numbers.split_at_mut(starts(middle) - starts(all.start));
        let rest = Self { numbers: rest, pieces: middle..all.end, starts: starts.clone() };
        (Self { numbers: first, pieces: all.start..middle, starts }, rest)
    }

    fn in_order(self) -> impl Iterator<Item = &'a mut [T]> {
        let Self { mut numbers, pieces, starts } = self;
        pieces.map(move |piece| {
            let length = starts(piece + 1) - starts(piece);
            let (now, later) = std::mem::take(&mut numbers).split_at_mut(length);
            numbers = later;
            now
        })
    }
}

/// Two results of the same items.
impl<A: Pieces, B: Pieces> Pieces for (A, B) {
    type Piece = (A::Piece, B::Piece);

    fn count(&self) -> usize {
        assert_eq!(self.0.count(), self.1.count(), "both results have the same items");
        self.0.count()
    }

    fn split(self, pieces: usize) -> (Self, Self) {
        let ((a, more_a), (b, more_b)) = (self.0.split(pieces), self.1.split(pieces));
        ((a, b), (more_a, more_b))
    }

    fn in_order(self) -> impl Iterator<Item = Self::Piece> {
        self.0.in_order().zip(self.1.in_order())
    }
}

/// Pieces in groups of several; the last group may be smaller.
#[derive(Debug)]
pub struct Together<P> {
    pieces: P,
    each: usize,
}

impl<P> Together<P> {
    /// Groups `each` pieces, at least 1.
    pub const fn new(pieces: P, each: usize) -> Self {
        Self { pieces, each }
    }
}

impl<P: Pieces> Pieces for Together<P> {
    type Piece = Vec<P::Piece>;

    fn count(&self) -> usize {
        self.pieces.count().div_ceil(self.each)
    }

    fn split(self, pieces: usize) -> (Self, Self) {
        let Self { pieces: all, each } = self;
        let (first, rest) = all.split(pieces * each);
        (Self::new(first, each), Self::new(rest, each))
    }

    fn in_order(self) -> impl Iterator<Item = Self::Piece> {
        let Self { pieces, each } = self;
        let mut pieces = pieces.in_order();
        std::iter::from_fn(move || {
            let some: Vec<_> = pieces.by_ref().take(each).collect();
            (!some.is_empty()).then_some(some)
        })
    }
}

/// Runs `work` on every piece, with its index, and with the state of the thread that runs it.
///
/// Every thread begins with a range of neighboring pieces. That of the calling thread is the same in
/// every call, so that what it wrote is in its cache when it reads it in the next call. A thread
/// that has none left takes over half of what another has left: a thread that wakes up late delays
/// no other. Other threads of the pool spin for 2 ms after their part, so that they are awake for the
/// next operation.
///
/// The work on a piece must not depend on the pieces beside it or on what the state has seen before;
/// then the number of threads changes no result. The calling thread works too; without the feature
/// `rayon` it does all.
///
/// # Panics
/// If there is no state.
pub fn over<P: Pieces, S: Send>(
    pieces: P,
    states: &mut [S],
    work: impl Fn(usize, P::Piece, &mut S) + Sync,
) {
    let run = |first: usize, pieces: P, state: &mut S| {
        for (index, piece) in pieces.in_order().enumerate() {
            work(first + index, piece, state);
        }
    };
    let (own, others) = states.split_first_mut().expect("a state for the calling thread");
    #[cfg(feature = "rayon")]
    {
        let threads = (others.len() + 1).min(pieces.count());
        if threads > 1 {
            let shares = &shares::Shares::new(pieces, threads);
            let run_all = |thread: usize, state: &mut S| {
                while let Some((first, pieces)) = shares.next(thread) {
                    run(first, pieces, state);
                }
            };
            let _operation = spin::InOperation::enter();
            rayon::in_place_scope(|scope| {
                for (thread, state) in (1..threads).zip(others) {
                    let run_all = &run_all;
                    scope.spawn(move |_| {
                        run_all(thread, state);
                        spin::spin_after_job();
                    });
                }
                run_all(0, own);
            });
            return;
        }
    }
    let _ = others;
    run(0, pieces, own);
}

/// The number of threads that are used for a requested number.
#[must_use]
pub fn threads(asked: usize) -> usize {
    /// No machine has more; each has work space of its own.
    const MOST: usize = 1 << 12;
    if cfg!(feature = "rayon") { asked.clamp(1, MOST) } else { 1 }
}

/// Starts rayon's global pool with the calling thread as one of its threads, usually that of `main`.
///
/// Otherwise rayon starts a pool beside the calling thread at its first use: there is one thread more
/// than the machine has processors, and training steps take longer. A pool of a single thread is
/// started beside the calling thread even here: other threads need one that does their work while
/// the calling thread waits.
///
/// Does nothing if the pool is started already, and without the feature `rayon`.
///
/// # Errors
/// If the system starts no more threads.
pub fn start_pool() -> std::io::Result<()> {
    #[cfg(feature = "rayon")]
    {
        use std::error::Error;

        let threads = wanted_threads();
        let mut builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
        if threads > 1 {
            builder = builder.use_current_thread();
        }
        if let Err(error) = builder.build_global()
            && let Some(cause) = error.source()
        {
            return Err(std::io::Error::other(cause.to_string()));
        }
    }
    Ok(())
}

/// The number that rayon chooses: that of its variables, or that of the processors.
#[cfg(feature = "rayon")]
fn wanted_threads() -> usize {
    ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"]
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
        .filter(|&threads| threads > 0)
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Threads of rayon's pool; without the feature `rayon` 1.
#[must_use]
pub fn pool_threads() -> usize {
    #[cfg(feature = "rayon")]
    let threads = rayon::current_num_threads();
    #[cfg(not(feature = "rayon"))]
    let threads = 1;
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_visited_once_with_its_index_by_any_number_of_threads() {
        for states in 1..6 {
            for len in [0, 1, 7, 12, 13] {
                let mut numbers = vec![usize::MAX; len];
                over(Cut::new(&mut numbers, 3), &mut vec![(); states], |index, piece, ()| {
                    piece.fill(index);
                });
                let expected: Vec<usize> = (0..len).map(|at| at / 3).collect();
                assert_eq!(numbers, expected, "{states} threads");
            }
            let starts = [0, 2, 2, 5, 9];
            let mut numbers = [usize::MAX; 9];
            over(
                Uneven::new(&mut numbers, 4, |piece| starts[piece]),
                &mut vec![(); states],
                |index, piece, ()| piece.fill(index),
            );
            assert_eq!(numbers, [0, 0, 2, 2, 2, 3, 3, 3, 3]);
            let mut sums = vec![0; states];
            over((0..10).collect::<Vec<usize>>(), &mut sums, |index, task, sum| {
                assert_eq!(index, task);
                *sum += task;
            });
            assert_eq!(sums.iter().sum::<usize>(), 45);
        }
    }

    #[test]
    fn pairs_and_groups_of_pieces_stay_together() {
        for states in 1..4 {
            let (mut a, mut b) = ([0; 10], [0; 5]);
            let pieces = Together::new((Cut::new(&mut a, 2), Cut::new(&mut b, 1)), 2);
            over(pieces, &mut vec![(); states], |index, pairs, ()| {
                for (a, b) in pairs {
                    a.fill(index);
                    b.fill(index);
                }
            });
            assert_eq!(a, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
            assert_eq!(b, [0, 0, 1, 1, 2]);
        }
    }

    #[test]
    #[cfg(feature = "rayon")]
    fn other_threads_take_over_the_pieces_of_a_slow_one() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        use std::time::{Duration, Instant};

        let done = AtomicUsize::new(0);
        over(vec![(); 10], &mut [(); 2], |index, (), ()| {
            // The thread that has the first piece has two more in hand, and two to give away.
            let begun = Instant::now();
            while index == 0 && done.load(Ordering::Relaxed) < 7 {
                assert!(begun.elapsed() < Duration::from_secs(60), "no thread takes pieces over");
                std::thread::yield_now();
            }
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 10);
    }
}
