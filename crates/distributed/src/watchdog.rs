//! A timeout for collective calls.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::roll_call::RollCall;
use crate::{Collective, CollectiveError, Signals};

/// The operation that a rank was waiting for when its time was over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// The rank that waited.
    pub rank: usize,
    /// The call that did not return: `all_to_all`, `barrier`, ….
    pub call: &'static str,
    /// How long it waited.
    pub waited: Duration,
    /// The ranks that do not wait in a call, which all others wait for; `None` without [`Signals`].
    pub absent: Option<Vec<usize>>,
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
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The call in progress, and when it began.
    call: Option<(&'static str, Instant)>,
    is_over: bool,
}

/// How often the watching thread looks.
const TICK: Duration = Duration::from_millis(20);

impl<C: Collective> Watched<C> {
    /// Watches `collective`: a call longer than `timeout` is passed to `on_stall`, once.
    ///
    /// With `signals`, the ranks find out which of them do not wait; without, none is named.
    pub fn new(
        collective: C,
        timeout: Duration,
        signals: Option<Box<dyn Signals>>,
        on_stall: impl FnOnce(Stalled) + Send + 'static,
    ) -> Self {
        let (rank, size) = (collective.rank(), collective.size());
        let mut roll_call = signals.map(|signals| RollCall::new(signals, rank, size));
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let watcher = thread::spawn(move || {
            if let Some(((call, waited), absent)) = watched.watch(timeout, roll_call.as_mut()) {
                on_stall(Stalled { rank, call, waited, absent });
            }
        });
        Self { collective, shared, watcher: Some(watcher) }
    }

    fn call<T>(&mut self, name: &'static str, call: impl FnOnce(&mut C) -> T) -> T {
        self.shared.lock().call = Some((name, Instant::now()));
        let result = call(&mut self.collective);
        self.shared.lock().call = None;
        result
    }
}

/// A call with the time that it has taken, and the ranks that did not arrive.
type Stall = ((&'static str, Duration), Option<Vec<usize>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a call that takes too long, or for the end.
    fn watch(&self, timeout: Duration, mut roll_call: Option<&mut RollCall>) -> Option<Stall> {
        let mut watched = None;
        let mut state = self.lock();
        while !state.is_over {
            let call = state.call;
            drop(state);
            if let Some(roll_call) = &mut roll_call {
                if call != watched {
                    roll_call.end();
                }
                if call.is_some() {
                    roll_call.receive();
                }
            }
            watched = call;
            if let Some((name, since)) = call.filter(|(_, since)| since.elapsed() >= timeout) {
                let stall = (name, since.elapsed());
                match &mut roll_call {
                    None => return Some((stall, None)),
                    Some(roll_call) => {
                        if let Some(absent) = roll_call.absent() {
                            return Some((stall, Some(absent)));
                        }
                    }
                }
            }
            let woken = self.ended.wait_timeout(self.lock(), TICK);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
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
        self.shared.ended.notify_one();
        if let Some(watcher) = self.watcher.take() {
            // A panic of `on_stall` has been printed already.
            let _ = watcher.join();
        }
    }
}
