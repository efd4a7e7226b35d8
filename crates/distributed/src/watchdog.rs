//! A timeout for collective calls.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{Collective, CollectiveError};

/// The operation that a rank was waiting for when its time was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// The rank that waited.
    pub rank: usize,
    /// The call that did not return: `all_to_all`, `barrier`, ….
    pub call: &'static str,
    /// How long it waited.
    pub waited: Duration,
}

/// A collective whose calls are watched from another thread.
///
/// An engine such as MPI waits forever for a rank that hangs, and no call can be taken back. So
/// `on_stall` is called on the watching thread; it reports, and ends the process.
#[derive(Debug)]
pub struct Watched<C> {
    collective: C,
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The call in progress, and when it began.
    call: Option<(&'static str, Instant)>,
    is_over: bool,
}

impl<C: Collective> Watched<C> {
    /// Watches `collective`: a call longer than `timeout` is passed to `on_stall`, once.
    pub fn new(
        collective: C,
        timeout: Duration,
        on_stall: impl FnOnce(Stalled) + Send + 'static,
    ) -> Self {
        let rank = collective.rank();
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let watcher = thread::spawn(move || {
            if let Some((call, waited)) = watched.watch(timeout) {
                on_stall(Stalled { rank, call, waited });
            }
        });
        Self { collective, shared, watcher: Some(watcher) }
    }

    fn call<T>(&mut self, name: &'static str, call: impl FnOnce(&mut C) -> T) -> T {
        self.shared.lock().call = Some((name, Instant::now()));
        self.shared.changed.notify_one();
        let result = call(&mut self.collective);
        self.shared.lock().call = None;
        result
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a call that takes too long, or for the end.
    fn watch(&self, timeout: Duration) -> Option<(&'static str, Duration)> {
        let mut state = self.lock();
        while !state.is_over {
            state = match state.call {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some((call, since)) => {
                    let waited = since.elapsed();
                    if waited >= timeout {
                        return Some((call, waited));
                    }
                    let woken = self.changed.wait_timeout(state, timeout.saturating_sub(waited));
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        None
    }
}

impl<C: Collective> Collective for Watched<C> {
    fn rank(&self) -> usize {
        self.collective.rank()
    }

    fn size(&self) -> usize {
        self.collective.size()
    }

    fn broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<(), CollectiveError> {
        self.call("broadcast", |collective| collective.broadcast(root, data))
    }

    fn all_to_all(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        self.call("all_to_all", |collective| collective.all_to_all(send, receive))
    }

    fn all_gather(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        self.call("all_gather", |collective| collective.all_gather(send, receive))
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.call("barrier", Collective::barrier)
    }
}

impl<C> Drop for Watched<C> {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
        if let Some(watcher) = self.watcher.take() {
            // A panic of `on_stall` has been printed already.
            let _ = watcher.join();
        }
    }
}
