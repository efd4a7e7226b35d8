//! Threads that spin for further work before they sleep, as those of OpenMP do.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a thread without work spins.
///
/// On two threads of an AMD EPYC (Zen 4, a virtual machine) a sleeping thread starts its part 70 to
/// 90 µs after the calling one. A training step of the dual-pathway network at batch 64 took 26.6 ms
/// without spinning, 25.1 ms with 100 µs and 22.7 ms with 300 µs, because the gaps between its
/// operations are shorter. Between the steps of a network for tables they are longer: it trained on
/// 113,000 rows a second with 300 µs, 123,000 with 1 ms and 126,000 with 2 ms (Adult at batch 256 on
/// two threads of a Xeon, Cascade Lake; medians of 30 alternating epochs).
const SPIN_DURATION: Duration = Duration::from_millis(2);

/// How many rounds of looking for a job a thread spins before it offers the processor to others.
///
/// A round takes some tenths of a microsecond, and the offer is a system call that takes longer.
const ROUNDS_PER_YIELD: usize = 32;

thread_local! {
    static IS_SPINNING: Cell<bool> = const { Cell::new(false) };
    /// The calls of [`over`](super::over) that the thread is in.
    static OPERATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Marks that the thread is in an operation until it is dropped.
pub(super) struct InOperation(());

impl InOperation {
    pub(super) fn enter() -> Self {
        OPERATIONS.set(OPERATIONS.get() + 1);
        Self(())
    }
}

impl Drop for InOperation {
    fn drop(&mut self) {
        OPERATIONS.set(OPERATIONS.get() - 1);
    }
}

/// Lets the calling thread of rayon's pool spin when its job is done, so that it is awake when the
/// next operation begins. rayon itself lets it sleep after some microseconds.
///
/// The thread runs any job of the pool meanwhile. A thread that waits for the end of an operation
/// does not spin; one that waits in another way, such as in `rayon::join`, and runs a part of an
/// operation of another thread meanwhile, may wait for the whole duration.
pub(super) fn spin_after_job() {
    let thread = rayon::current_thread_index();
    // A job that runs while the thread spins prolongs the duration.
    if thread.is_none() || IS_SPINNING.get() || OPERATIONS.get() > 0 {
        return;
    }
    rayon::spawn(move || {
        // Another thread may have taken over the job.
        if rayon::current_thread_index() != thread || OPERATIONS.get() > 0 {
            return;
        }
        IS_SPINNING.set(true);
        #[cfg(test)]
        tests::count();
        let mut since = Instant::now();
        'spin: loop {
            for _ in 0..ROUNDS_PER_YIELD {
                if rayon::yield_now() == Some(rayon::Yield::Executed) {
                    since = Instant::now();
                }
                if since.elapsed() >= SPIN_DURATION {
                    break 'spin;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
        IS_SPINNING.set(false);
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::super::over;
    use super::*;

    /// How often any thread began to spin.
    static SPINS: AtomicUsize = AtomicUsize::new(0);

    thread_local! {
        static SPINS_OF_THREAD: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        SPINS.fetch_add(1, Ordering::Relaxed);
        SPINS_OF_THREAD.set(SPINS_OF_THREAD.get() + 1);
    }

    fn pool(threads: usize) -> rayon::ThreadPool {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
        builder.build().expect("the system starts a few threads")
    }

    #[test]
    fn threads_spin_after_their_part_of_an_operation() {
        let (before, begun) = (SPINS.load(Ordering::Relaxed), Instant::now());
        pool(2).install(|| {
            while SPINS.load(Ordering::Relaxed) == before {
                assert!(begun.elapsed() < Duration::from_secs(60), "no thread spins");
                over(vec![(); 8], &mut [(); 2], |_, (), ()| std::thread::yield_now());
            }
        });
    }

    #[test]
    fn a_thread_that_waits_for_the_end_of_an_operation_does_not_spin() {
        let (is_over, blocked) = (AtomicBool::new(false), AtomicUsize::new(0));
        let spins = pool(3).install(|| {
            rayon::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|_| {
                        blocked.fetch_add(1, Ordering::Relaxed);
                        while !is_over.load(Ordering::Relaxed) {
                            std::thread::yield_now();
                        }
                    });
                }
                while blocked.load(Ordering::Relaxed) < 2 {
                    std::thread::yield_now();
                }
                // This thread runs every part, those that it gives to the others included.
                for _ in 0..50 {
                    over(vec![(); 9], &mut [(); 3], |_, (), ()| ());
                }
                is_over.store(true, Ordering::Relaxed);
                SPINS_OF_THREAD.get()
            })
        });
        assert_eq!(spins, 0);
    }

    #[test]
    fn operations_within_operations_and_other_jobs_run_while_threads_spin() {
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
    fn a_thread_that_spins_runs_a_job_that_another_one_waits_for() {
        let done = AtomicUsize::new(0);
        pool(2).install(|| {
            over(vec![(); 2], &mut [(); 2], |_, (), ()| std::thread::yield_now());
            // Each waits for the other, so that both threads have to run them.
            let meet = || {
                done.fetch_add(1, Ordering::Relaxed);
                let begun = Instant::now();
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
