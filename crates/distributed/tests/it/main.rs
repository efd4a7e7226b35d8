//! Tests through the public API only.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;
mod failures;
mod sums;

use std::thread;
use std::time::Duration;

use updraft_distributed::Threads;

/// Runs `program` on every rank of a group of threads, and returns what each returned.
fn on_threads<T: Send>(size: usize, program: impl Fn(Threads) -> T + Sync) -> Vec<T> {
    let ranks = Threads::group(size, Duration::from_secs(20));
    thread::scope(|scope| {
        let program = &program;
        let threads: Vec<_> =
            ranks.into_iter().map(|rank| scope.spawn(move || program(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
