//! Work on several threads, cut so that the cut changes no result.

/// Runs `work` on ranges of equal length of the items, one range and one state a thread.
///
/// Items are cut from `output` in pieces of `piece` numbers. The work on an item must not depend
/// on the items beside it; then the number of threads changes no result.
pub(crate) fn over_items<T: Send, S: Send>(
    output: &mut [T],
    piece: usize,
    states: &mut [S],
    work: impl Fn(usize, &mut [T], &mut S) + Sync,
) {
    let items = output.len() / piece;
    let threads = states.len().min(items).max(1);
    let share = items.div_ceil(threads);
    let run = |(part, (output, state)): (usize, (&mut [T], &mut S))| {
        for (index, output) in output.chunks_exact_mut(piece).enumerate() {
            work(part * share + index, output, state);
        }
    };
    let parts = output.chunks_mut(share * piece).zip(states).enumerate();
    #[cfg(feature = "rayon")]
    if threads > 1 {
        rayon::scope(|scope| {
            for part in parts {
                scope.spawn(|_| run(part));
            }
        });
        return;
    }
    parts.for_each(run);
}

/// How many threads are used where so many were asked for.
pub(crate) fn threads(asked: usize) -> usize {
    if cfg!(feature = "rayon") { asked.max(1) } else { 1 }
}
