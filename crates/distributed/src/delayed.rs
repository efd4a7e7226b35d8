//! A collective on a network that is slower than the one it uses.

use std::thread;
use std::time::Duration;

use crate::{Collective, CollectiveError, Network};

/// A collective whose calls take longer, as if a network were between the ranks.
///
/// Each call ends later by what [`Network`] computes for it, so that a run on one machine shows what
/// it takes on slower links. What the ranks exchange does not change. The latency of a real network
/// depends on the algorithm of the engine, too; here it is that of the cost model.
#[derive(Debug)]
pub struct Delayed<C> {
    collective: C,
    network: Network,
}

impl<C: Collective> Delayed<C> {
    /// Adds the time of `network` to every call; `bytes_per_s` may be infinite.
    pub fn new(collective: C, network: Network) -> Self {
        Self { collective, network }
    }

    /// Waits after a call that all ranks have made.
    fn delay<T>(
        &mut self,
        seconds: impl FnOnce(Network, usize) -> f64,
        call: impl FnOnce(&mut C) -> Result<T, CollectiveError>,
    ) -> Result<T, CollectiveError> {
        let done = call(&mut self.collective)?;
        let seconds = seconds(self.network, self.collective.size());
        thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        Ok(done)
    }
}

impl<C: Collective> Collective for Delayed<C> {
    fn rank(&self) -> usize {
        self.collective.rank()
    }

    fn size(&self) -> usize {
        self.collective.size()
    }

    fn broadcast(&mut self, root: usize, data: &mut [u8]) -> Result<(), CollectiveError> {
        let bytes = data.len() as f64;
        self.delay(
            |network, ranks| network.broadcast_s(ranks, bytes),
            |collective| collective.broadcast(root, data),
        )
    }

    fn all_to_all(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        self.delay(
            |network, ranks| network.all_to_all_s(ranks, (send.len() / ranks) as f64),
            |collective| collective.all_to_all(send, receive),
        )
    }

    fn all_gather(&mut self, send: &[u8], receive: &mut [u8]) -> Result<(), CollectiveError> {
        self.delay(
            |network, ranks| network.all_gather_s(ranks, send.len() as f64),
            |collective| collective.all_gather(send, receive),
        )
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.delay(|network, ranks| network.broadcast_s(ranks, 0.0), Collective::barrier)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{AllReduce, Alone, Threads, Wire, gather};

    #[test]
    fn calls_take_the_time_of_the_network_and_change_nothing() {
        let network = Network { latency_s: 20e-3, bytes_per_s: 1e6 };
        let ranks = Threads::group(4, Duration::from_secs(60));
        let each = |rank: Threads| {
            let mut rank = Delayed::new(rank, network);
            let own = rank.rank();
            let started = Instant::now();
            let mut numbers: Vec<f32> = (0..4000).map(|at| (at + own) as f32).collect();
            AllReduce::new(Wire::F32).sum(&mut rank, &mut numbers).unwrap();
            assert!((0..4000).all(|at| numbers[at] == (4 * at + 6) as f32));
            let texts = gather(&mut rank, &[own as u8; 100]).unwrap();
            assert!((0..4).all(|other| texts[other] == [other as u8; 100]));
            let mut from_one = [own as u8];
            rank.broadcast(1, &mut from_one).unwrap();
            assert_eq!(from_one, [1]);
            rank.barrier().unwrap();
            started.elapsed().as_secs_f64()
        };
        // Parts of 4 kB: 20 + 12 ms and 40 + 12 ms; gathering 80.324 ms; twice two rounds.
        let least = 0.084 + 0.080_324 + 2.0 * 0.04;
        thread::scope(|scope| {
            let threads: Vec<_> =
                ranks.into_iter().map(|rank| scope.spawn(|| each(rank))).collect();
            for thread in threads {
                let took = thread.join().unwrap();
                assert!(took >= least, "{took} s, {least} s by hand");
            }
        });
        let mut alone = Delayed::new(Alone, Network { latency_s: 1e9, bytes_per_s: 1e-9 });
        let mut received = [0; 2];
        alone.all_gather(&[1, 2], &mut received).unwrap();
        alone.all_to_all(&[1, 2], &mut received).unwrap();
        alone.broadcast(0, &mut received).unwrap();
        alone.barrier().unwrap();
        assert_eq!(received, [1, 2], "a single rank waits for nothing");
    }
}
