//! Work on several threads, cut so that the cut changes no result.

/// Runs `work` on `items`, whose parts of `output` begin at `starts(item)` and follow each other.
///
/// Every thread has one state and takes a range of items. The work on an item must not depend on
/// the items beside it; then the number of threads changes no result.
pub(crate) fn over_items<T: Send, S: Send>(
    output: &mut [T],
    items: usize,
    starts: impl Fn(usize) -> usize + Sync,
    states: &mut [S],
    work: impl Fn(usize, &mut [T], &mut S) + Sync,
) {
    let threads = states.len().min(items).max(1);
    let share = items.div_ceil(threads);
    let run = |items: std::ops::Range<usize>, mut output: &mut [T], state: &mut S| {
        for item in items {
            let (now, later) = output.split_at_mut(starts(item + 1) - starts(item));
            work(item, now, state);
            output = later;
        }
    };
    #[cfg(feature = "rayon")]
    if threads > 1 {
        let (first, others) = states.split_at_mut(1);
        let (mine, mut rest) = output.split_at_mut(starts(share) - starts(0));
        rayon::in_place_scope(|scope| {
            for (part, state) in (1..threads).zip(others) {
                let range = (part * share).min(items)..((part + 1) * share).min(items);
                let (now, later) =
                    std::mem::take(&mut rest).split_at_mut(starts(range.end) - starts(range.start));
                rest = later;
                let run = &run;
                scope.spawn(move |_| run(range, now, state));
            }
            // The caller's thread works, too, instead of waiting for one to wake.
            run(0..share, mine, &mut first[0]);
        });
        return;
    }
    debug_assert_eq!(share, items, "one thread takes all");
    run(0..items, output, &mut states[0]);
}

/// How many threads are used where so many were asked for.
pub(crate) fn threads(asked: usize) -> usize {
    if cfg!(feature = "rayon") { asked.max(1) } else { 1 }
}
