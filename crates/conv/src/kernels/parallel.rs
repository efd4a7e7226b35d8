//! Work on several threads, cut so that the cut changes no result.

/// Memory in pieces, each written by one thread.
pub(crate) trait Pieces: Send + Sized {
    /// What the work on one item writes.
    type Piece;

    /// How many there are.
    fn count(&self) -> usize;

    /// The first `pieces` of them, and the rest.
    fn split(self, pieces: usize) -> (Self, Self);

    /// All of them, in order.
    fn in_order(self) -> impl Iterator<Item = Self::Piece>;
}

/// A slice in pieces of one length; the last may be shorter.
pub(crate) struct Cut<'a, T> {
    numbers: &'a mut [T],
    piece: usize,
}

impl<'a, T> Cut<'a, T> {
    pub(crate) const fn new(numbers: &'a mut [T], piece: usize) -> Self {
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

/// Pieces handed out some at a time; the last may be fewer.
pub(crate) struct Together<P> {
    pieces: P,
    each: usize,
}

impl<P> Together<P> {
    pub(crate) const fn new(pieces: P, each: usize) -> Self {
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

/// Runs `work` on every piece: ranges of equal length, one range and one state a thread.
///
/// The work on a piece must not depend on the pieces beside it; then the number of threads
/// changes no result.
pub(crate) fn over<P: Pieces, S: Send>(
    pieces: P,
    states: &mut [S],
    work: impl Fn(usize, P::Piece, &mut S) + Sync,
) {
    let threads = states.len().min(pieces.count()).max(1);
    let share = pieces.count().div_ceil(threads);
    let mut rest = pieces;
    let mut parts = Vec::with_capacity(threads);
    for (part, state) in states[..threads].iter_mut().enumerate() {
        let (now, later) = rest.split(share);
        rest = later;
        parts.push((part * share, now, state));
    }
    let run = |(first, pieces, state): (usize, P, &mut S)| {
        for (index, piece) in pieces.in_order().enumerate() {
            work(first + index, piece, state);
        }
    };
    #[cfg(feature = "rayon")]
    if threads > 1 {
        rayon::scope(|scope| {
            for part in parts {
                scope.spawn(|_| run(part));
            }
        });
        return;
    }
    parts.into_iter().for_each(run);
}

/// The same for a slice in pieces of `piece` numbers.
pub(crate) fn over_items<T: Send, S: Send>(
    output: &mut [T],
    piece: usize,
    states: &mut [S],
    work: impl Fn(usize, &mut [T], &mut S) + Sync,
) {
    over(Cut::new(output, piece), states, work);
}

/// How many threads are used where so many were asked for.
pub(crate) fn threads(asked: usize) -> usize {
    if cfg!(feature = "rayon") { asked.max(1) } else { 1 }
}
