//! Ranks that are threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Collective, CollectiveError};

/// One rank of a group of threads: for tests, and for programs that run the ranks themselves.
///
/// Threads share the random numbers of burn's CPU backend, so that dropout is not repeated from run
/// to run; `updraft train` starts a process for each rank.
///
/// A rank that is dropped, by a panic too, ends the exchanges of all others with
/// [`CollectiveError::Lost`].
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    size: usize,
    timeout: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many exchanges are complete.
    exchanges: u64,
    /// The contributions of the ranks that have arrived at the current exchange.
    arrived: Vec<Option<Vec<u8>>>,
    /// The contributions to the last complete exchange.
    complete: Arc<Vec<Vec<u8>>>,
    ended: Vec<bool>,
    failure: Option<CollectiveError>,
}

impl Threads {
    /// The ranks of a group of at least one, in order.
    ///
    /// An exchange fails after `timeout` if a rank does not arrive.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn group(size: usize, timeout: Duration) -> Vec<Self> {
        assert!(size > 0, "a group needs at least one rank");
        let state =
            State { arrived: vec![None; size], ended: vec![false; size], ..State::default() };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { size, timeout, state, changed });
        (0..size).map(|rank| Self { rank, shared: Arc::clone(&shared) }).collect()
    }

    /// Waits until every rank has contributed, and returns what they did.
    fn exchange(&self, mine: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>, CollectiveError> {
        let until = Instant::now() + self.shared.timeout;
        let mut state = self.shared.lock();
        let number = state.exchanges;
        state.arrived[self.rank] = Some(mine);
        if state.arrived.iter().all(Option::is_some) {
            state.complete = Arc::new(state.arrived.iter_mut().filter_map(Option::take).collect());
            state.exchanges += 1;
            self.shared.changed.notify_all();
        }
        while state.exchanges == number {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let absent = |rank: &usize| state.arrived[*rank].is_none();
            let lost = (0..self.shared.size).find(|rank| absent(rank) && state.ended[*rank]);
            let left = until.saturating_duration_since(Instant::now());
            let failure = match lost {
                Some(rank) => CollectiveError::Lost { rank },
                None if left.is_zero() => CollectiveError::TimedOut {
                    rank: (0..self.shared.size).find(absent).unwrap_or_default(),
                    seconds: self.shared.timeout.as_secs(),
                },
                None => {
                    let waited = self.shared.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            };
            state.failure = Some(failure);
            self.shared.changed.notify_all();
        }
        Ok(Arc::clone(&state.complete))
    }

    /// [`exchange`](Self::exchange), where every rank has to contribute `expected` bytes.
    fn exchange_alike(&self, mine: &[u8]) -> Result<Arc<Vec<Vec<u8>>>, CollectiveError> {
        let all = self.exchange(mine.to_vec())?;
        let expected = mine.len();
        match all.iter().enumerate().find(|(_, other)| other.len() != expected) {
            Some((rank, other)) => {
                Err(CollectiveError::Length { rank, expected, found: other.len() })
            }
            None => Ok(all),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collective for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.size
    }

    fn broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<(), CollectiveError> {
        let all = self.exchange_alike(data)?;
        data.copy_from_slice(&all[root]);
        Ok(())
    }

    fn all_to_all(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        let all = self.exchange_alike(send)?;
        let part = send.len() / self.size();
        for (rank, other) in all.iter().enumerate() {
            let here = &other[self.rank * part..][..part];
            receive[rank * part..][..part].copy_from_slice(here);
        }
        Ok(())
    }

    fn all_gather(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        let all = self.exchange_alike(send)?;
        for (rank, other) in all.iter().enumerate() {
            receive[rank * send.len()..][..send.len()].copy_from_slice(other);
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.exchange_alike(&[]).map(drop)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.lock().ended[self.rank] = true;
        self.shared.changed.notify_all();
    }
}
