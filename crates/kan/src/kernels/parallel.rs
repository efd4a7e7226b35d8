//! Work on several threads, cut so that the cut changes no result.

/// Runs `work` on every task, a run of neighboring tasks and one state a thread.
///
/// A task must not depend on the tasks beside it; then the number of threads changes no result.
pub(crate) fn over_tasks<T: Send, S: Send>(
    mut tasks: Vec<T>,
    states: &mut [S],
    work: impl Fn(T, &mut S) + Sync,
) {
    let threads = states.len().min(tasks.len());
    #[cfg(feature = "rayon")]
    if threads > 1 {
        rayon::scope(|scope| {
            for (index, state) in states[..threads].iter_mut().enumerate() {
                // What is left, over the threads that are left.
                let share = tasks.len().div_ceil(threads - index);
                let rest = tasks.split_off(share);
                let part = std::mem::replace(&mut tasks, rest);
                let work = &work;
                scope.spawn(move |_| part.into_iter().for_each(|task| work(task, state)));
            }
        });
        return;
    }
    let _ = threads;
    if let Some(state) = states.first_mut() {
        tasks.drain(..).for_each(|task| work(task, state));
    }
}

/// How many threads are used where so many were asked for.
pub(crate) fn threads(asked: usize) -> usize {
    /// No machine has more; each has work space of its own.
    const MOST: usize = 1 << 12;
    if cfg!(feature = "rayon") { asked.clamp(1, MOST) } else { 1 }
}
