//! Threads that look for further work for a while before they sleep.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a thread without work looks for some.
///
/// Waking a sleeping one takes up to a tenth of a millisecond in a virtual machine, as long as many
/// operations of a training step take, and between these a step takes less than this time.
const TIME: Duration = Duration::from_micros(300);

thread_local! {
    static LINGERS: Cell<bool> = const { Cell::new(false) };
}

/// Lets the calling thread of rayon's pool look for further work when its job is done, so that it
/// is awake when the next operation begins. rayon itself lets it sleep after some microseconds.
///
/// Whatever job comes, the thread runs it: no other work waits for the end of this time.
pub(super) fn after_this_job() {
    let thread = rayon::current_thread_index();
    // A job that runs meanwhile prolongs the time.
    if thread.is_none() || LINGERS.get() {
        return;
    }
    rayon::spawn(move || {
        // Another thread took the job over while it waited for the end of a scope.
        if rayon::current_thread_index() != thread || LINGERS.replace(true) {
            return;
        }
        let mut since = Instant::now();
        while since.elapsed() < TIME {
            if rayon::yield_now() == Some(rayon::Yield::Executed) {
                since = Instant::now();
            }
            std::thread::yield_now();
        }
        LINGERS.set(false);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::over;

    fn pool(threads: usize) -> rayon::ThreadPool {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
        builder.build().expect("the system starts a few threads")
    }

    #[test]
    fn operations_within_operations_and_other_jobs_run_while_threads_look_for_work() {
        for threads in [1, 2, 5] {
            let done = AtomicUsize::new(0);
            let add = || _ = done.fetch_add(1, Ordering::Relaxed);
            pool(threads).install(|| {
                for _ in 0..100 {
                    over(vec![(); 7], &mut vec![(); threads], |_, (), ()| {
                        over(vec![(); 3], &mut vec![(); threads], |_, (), ()| add());
                    });
                    rayon::join(add, add);
                    rayon::scope(|scope| scope.spawn(|_| add()));
                }
            });
            assert_eq!(done.into_inner(), 100 * (7 * 3 + 3), "{threads} threads");
        }
    }

    #[test]
    fn a_thread_that_looks_for_work_runs_a_job_that_another_one_waits_for() {
        let done = AtomicUsize::new(0);
        pool(2).install(|| {
            over(vec![(); 2], &mut [(); 2], |_, (), ()| std::thread::yield_now());
            // Each waits for the other, so that both threads have to run them.
            let meet = || {
                done.fetch_add(1, Ordering::Relaxed);
                let begun = std::time::Instant::now();
                while done.load(Ordering::Relaxed) < 2 {
                    assert!(begun.elapsed().as_secs() < 60, "the other thread runs nothing");
                    std::thread::yield_now();
                }
            };
            rayon::join(meet, meet);
        });
        assert_eq!(done.into_inner(), 2);
    }
}
