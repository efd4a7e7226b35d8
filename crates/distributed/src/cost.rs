//! The cost model of a data-parallel run: exchanges of a step, checkpoints, failures.

use crate::Wire;
use crate::reduce::BUCKET;

/// About what a rank shares before the gradients of a step: losses, the score, and a flag for each
/// parameter.
const SHARE_BYTES: f64 = 1024.0;

/// A network that connects ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// α: seconds from the start of a message until its first byte arrives.
    pub latency_s: f64,
    /// β: bytes per second that a rank sends while it receives as many.
    pub bytes_per_s: f64,
}

/// Bytes above which a message is announced and accepted before it is sent, which takes two more
/// latencies: `btl_tcp_eager_limit` of Open MPI 4.1.
const EAGER_BYTES: f64 = 65_536.0;

/// Ranks from which Open MPI 4.1 gathers long parts from neighbors and on a ring, instead of doubling
/// what a rank has in each round, and the bytes of a long part.
const MANY_RANKS: usize = 32;
const LONG_PART: f64 = 1024.0;

/// The exchanges follow the algorithms that Open MPI 4.1 chooses
/// (`coll_tuned_decision_fixed.c`), of which it has more cases.
impl Network {
    /// Seconds of [`Collective::all_to_all`](crate::Collective::all_to_all) with a part of `bytes`
    /// for each rank: all messages start together, `α + (p − 1)m/β`.
    #[must_use]
    pub fn all_to_all_s(self, ranks: usize, bytes: f64) -> f64 {
        if ranks == 1 {
            return 0.0;
        }
        self.start_s(bytes) + self.sent_s((ranks - 1) as f64 * bytes)
    }

    /// Seconds of [`Collective::all_gather`](crate::Collective::all_gather) of `bytes` from each
    /// rank: `kα + (p − 1)m/β` with k rounds.
    ///
    /// k is `⌈log₂ p⌉` below 32 ranks or up to 1 KiB from each; else p/2, or p − 1 above 64 KiB.
    #[must_use]
    pub fn all_gather_s(self, ranks: usize, bytes: f64) -> f64 {
        let starts: f64 = if ranks < MANY_RANKS || bytes <= LONG_PART {
            let sent = |round: u32| (1 << round).min(ranks - (1 << round)) as f64 * bytes;
            (0..rounds(ranks)).map(|round| self.start_s(sent(round))).sum()
        } else if bytes <= EAGER_BYTES {
            (ranks / 2) as f64 * self.start_s(2.0 * bytes)
        } else {
            (ranks - 1) as f64 * self.start_s(bytes)
        };
        starts + self.sent_s((ranks - 1) as f64 * bytes)
    }

    /// Seconds of [`Collective::broadcast`](crate::Collective::broadcast) on a tree:
    /// `⌈log₂ p⌉(α + m/β)`; without bytes those of a barrier.
    #[must_use]
    pub fn broadcast_s(self, ranks: usize, bytes: f64) -> f64 {
        f64::from(rounds(ranks)) * (self.start_s(bytes) + self.sent_s(bytes))
    }

    /// Seconds of [`AllReduce::sum`](crate::AllReduce::sum) without arithmetic: for each bucket of
    /// 8 MiB in f32 an all-to-all and an all-gather of a part for each rank.
    #[must_use]
    pub fn all_reduce_s(self, ranks: usize, numbers: usize, wire: Wire) -> f64 {
        let both = |part| self.all_to_all_s(ranks, part) + self.all_gather_s(ranks, part);
        parts(ranks, numbers, wire).map(both).sum()
    }

    /// Seconds of [`gather`](crate::gather) of texts, lengths first.
    #[must_use]
    pub fn gather_s(self, ranks: usize, bytes: f64) -> f64 {
        self.all_gather_s(ranks, 8.0) + self.all_gather_s(ranks, bytes)
    }

    /// Seconds until the first byte of a message arrives.
    fn start_s(self, bytes: f64) -> f64 {
        if bytes > EAGER_BYTES { 3.0 * self.latency_s } else { self.latency_s }
    }

    fn sent_s(self, bytes: f64) -> f64 {
        bytes / self.bytes_per_s
    }
}

/// `⌈log₂ p⌉`.
fn rounds(ranks: usize) -> u32 {
    ranks.next_power_of_two().ilog2()
}

/// Bytes of a rank's part of each bucket.
fn parts(ranks: usize, numbers: usize, wire: Wire) -> impl Iterator<Item = f64> {
    (0..numbers.div_ceil(BUCKET)).map(move |bucket| {
        let in_bucket = BUCKET.min(numbers - bucket * BUCKET);
        (in_bucket.div_ceil(ranks) * wire.bytes()) as f64
    })
}

/// What ranks exchange in a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepExchange {
    /// Numbers of all gradients.
    pub gradients: usize,
    /// Their format.
    pub wire: Wire,
    /// Numbers of all running statistics of local batch norms, for each batch of a step, after which
    /// they are merged.
    pub statistics: usize,
}

impl StepExchange {
    /// The sums over all ranks in a step: of gradients, of statistics, and of the differences
    /// between the means of ranks.
    #[must_use]
    pub fn sums(self) -> [(usize, Wire); 3] {
        let Self { gradients, wire, statistics } = self;
        [(gradients, wire), (statistics, Wire::F32), (statistics / 2, Wire::F32)]
    }

    /// Bytes that a rank sends in a step.
    #[must_use]
    pub fn bytes(self, ranks: usize) -> f64 {
        let others = (ranks - 1) as f64;
        let sums = self.sums().into_iter().flat_map(|(numbers, wire)| parts(ranks, numbers, wire));
        others * (SHARE_BYTES + 8.0 + 2.0 * sums.sum::<f64>())
    }

    /// Seconds of the exchange in a step, without arithmetic. burn returns all gradients at once,
    /// so that no part of it is hidden by the backward pass.
    #[must_use]
    pub fn seconds(self, ranks: usize, network: Network) -> f64 {
        if ranks == 1 {
            return 0.0;
        }
        let sums = self.sums().into_iter();
        let sums = sums.map(|(numbers, wire)| network.all_reduce_s(ranks, numbers, wire));
        network.gather_s(ranks, SHARE_BYTES) + sums.sum::<f64>()
    }
}

/// Checkpoints, failures and restarts of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Restarts {
    /// C: seconds in which rank 0 writes a checkpoint while the others wait.
    pub checkpoint_s: f64,
    /// R: seconds from a failure until training continues from a checkpoint.
    pub restart_s: f64,
    /// λ: failures of any rank per second.
    pub failures_per_s: f64,
}

impl Restarts {
    /// The share of wall time in which training advances, with a checkpoint after every τ seconds of
    /// training: `τ/(τ + C) · (1 − λ(R + (τ + C)/2))`, at least 0.
    ///
    /// A failure loses half an interval on average, and the restart; 0 if that takes as long as the
    /// time between failures.
    #[must_use]
    pub fn useful_share(self, interval_s: f64) -> f64 {
        let Self { checkpoint_s, restart_s, failures_per_s } = self;
        let whole = interval_s + checkpoint_s;
        let lost = failures_per_s * (restart_s + whole / 2.0);
        interval_s / whole * (1.0 - lost).max(0.0)
    }

    /// The best interval, `√(2C/λ)`; infinite without failures.
    ///
    /// # Source
    /// Young 1974, "A first order approximation to the optimum checkpoint interval".
    #[must_use]
    pub fn best_interval_s(self) -> f64 {
        (2.0 * self.checkpoint_s / self.failures_per_s).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 ms and 1 MB/s.
    const SLOW: Network = Network { latency_s: 1e-3, bytes_per_s: 1e6 };

    fn close(found: f64, by_hand: f64) {
        assert!((found - by_hand).abs() <= 1e-12 * by_hand.abs(), "{found}, {by_hand} by hand");
    }

    #[test]
    fn an_exchange_has_the_seconds_computed_by_hand() {
        // Three messages of 1000 bytes that start together: 1 ms + 3 · 1 ms; gathered in two rounds.
        close(SLOW.all_to_all_s(4, 1000.0), 4e-3);
        close(SLOW.all_gather_s(4, 1000.0), 5e-3);
        // 1000 numbers, parts of 250: both in f32, and 1 + 1.5 ms and 2 + 1.5 ms in bf16.
        close(SLOW.all_reduce_s(4, 1000, Wire::F32), 9e-3);
        close(SLOW.all_reduce_s(4, 1000, Wire::Bf16), 6e-3);
        // 1001 numbers: parts of 251.
        close(SLOW.all_reduce_s(4, 1001, Wire::F32), 3e-3 + 6.0 * 1.004e-3);
        // Two full buckets and one number: 2 · (3 ms + 4.194304 s) each, 2 · 1.004 ms.
        let numbers = 2 * BUCKET + 1;
        close(SLOW.all_reduce_s(2, numbers, Wire::F32), 4.0 * 4.197304 + 2.008e-3);
        assert_eq!(SLOW.all_reduce_s(4, 0, Wire::F32), 0.0);
        // Two rounds of 1 ms, twice, and 3 · 108 bytes; five ranks need three rounds.
        close(SLOW.gather_s(4, 100.0), 4e-3 + 0.324e-3);
        close(SLOW.gather_s(5, 100.0), 6e-3 + 0.432e-3);
        close(SLOW.broadcast_s(5, 1000.0), 6e-3);
        close(SLOW.broadcast_s(2, 0.0), 1e-3);
        for seconds in
            [SLOW.all_to_all_s(1, 9.0), SLOW.all_gather_s(1, 9.0), SLOW.broadcast_s(1, 9.0)]
        {
            assert_eq!(seconds, 0.0, "one rank sends nothing");
        }
    }

    #[test]
    fn many_ranks_gather_long_parts_from_neighbors() {
        // Of 64 ranks: six rounds, 32 pairs of neighbors with two parts each, a ring.
        close(SLOW.all_gather_s(64, 1000.0), 6e-3 + 63e-3);
        close(SLOW.all_gather_s(64, 2000.0), 32e-3 + 126e-3);
        // Messages above 64 KiB are announced: three latencies.
        close(SLOW.all_gather_s(64, 40_000.0), 96e-3 + 2.52);
        close(SLOW.all_gather_s(64, 70_000.0), 189e-3 + 4.41);
        // 31 ranks double what they have: the last of five rounds sends 15 parts.
        close(SLOW.all_gather_s(31, 7000.0), 7e-3 + 0.21);
        close(SLOW.all_to_all_s(64, 70_000.0), 3e-3 + 4.41);
    }

    #[test]
    fn a_step_has_the_sums_of_gradients_and_statistics() {
        let exchange = StepExchange { gradients: 1000, wire: Wire::Bf16, statistics: 8 };
        assert_eq!(exchange.sums(), [(1000, Wire::Bf16), (8, Wire::F32), (4, Wire::F32)]);
        // Two ranks: 1032 bytes, and twice the parts of 500 · 2, 4 · 4 and 2 · 4 bytes.
        close(exchange.bytes(2), 1032.0 + 2.0 * (1000.0 + 16.0 + 8.0));
        // 2 ms and 1.032 ms; then 2 · (1 ms + 1 ms), 2 · 1.016 ms, 2 · 1.008 ms.
        close(exchange.seconds(2, SLOW), 3.032e-3 + 4e-3 + 2.032e-3 + 2.016e-3);
        let plain = StepExchange { statistics: 0, ..exchange };
        close(plain.seconds(2, SLOW), 3.032e-3 + 4e-3);
        assert_eq!(exchange.seconds(1, SLOW), 0.0);
        assert_eq!(exchange.bytes(1), 0.0);
    }

    #[test]
    fn restarts_cost_what_is_computed_by_hand() {
        // 90 s and 10 s of writing; a failure in 1000 s loses 50 s and restarts in 50 s.
        let restarts = Restarts { checkpoint_s: 10.0, restart_s: 50.0, failures_per_s: 1e-3 };
        close(restarts.useful_share(90.0), 0.9 * 0.9);
        close(restarts.best_interval_s(), 20_000_f64.sqrt());
        let never = Restarts { failures_per_s: 0.0, ..restarts };
        close(never.useful_share(90.0), 0.9);
        assert_eq!(never.best_interval_s(), f64::INFINITY);
        // Restarts that take longer than the time between failures.
        let stuck = Restarts { failures_per_s: 0.1, ..restarts };
        assert_eq!(stuck.useful_share(90.0), 0.0);
        // Around the best interval, the share falls on both sides.
        let rare = Restarts { checkpoint_s: 1.0, restart_s: 10.0, failures_per_s: 1e-5 };
        let best = rare.best_interval_s();
        for factor in [0.3, 3.0] {
            assert!(rare.useful_share(best) > rare.useful_share(factor * best));
        }
    }
}
