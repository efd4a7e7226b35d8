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

impl Network {
    /// Seconds in which each of `ranks` sends messages of `bytes` to all others, one after another:
    /// `(p − 1)(α + m/β)`. That is an all-to-all in pairs, and an all-gather on a ring.
    #[must_use]
    pub fn all_to_all_s(self, ranks: usize, bytes: f64) -> f64 {
        (ranks - 1) as f64 * (self.latency_s + bytes / self.bytes_per_s)
    }

    /// Seconds of [`AllReduce::sum`](crate::AllReduce::sum) without arithmetic: for each bucket of
    /// 8 MiB in f32 an all-to-all and an all-gather of a part for each rank.
    #[must_use]
    pub fn all_reduce_s(self, ranks: usize, numbers: usize, wire: Wire) -> f64 {
        parts(ranks, numbers, wire).map(|part| 2.0 * self.all_to_all_s(ranks, part)).sum()
    }

    /// Seconds of [`gather`](crate::gather) of short texts, lengths first:
    /// `2⌈log₂ p⌉α + (p − 1)(s + 8)/β`.
    #[must_use]
    pub fn gather_s(self, ranks: usize, bytes: f64) -> f64 {
        let rounds = ranks.next_power_of_two().ilog2();
        let received = (ranks - 1) as f64 * (bytes + 8.0);
        2.0 * f64::from(rounds) * self.latency_s + received / self.bytes_per_s
    }
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
        // Three messages of 1000 bytes: 3 · (1 ms + 1 ms).
        close(SLOW.all_to_all_s(4, 1000.0), 6e-3);
        // 1000 numbers, parts of 250: 2 · 3 · (1 ms + 1 ms) in f32, 2 · 3 · 1.5 ms in bf16.
        close(SLOW.all_reduce_s(4, 1000, Wire::F32), 12e-3);
        close(SLOW.all_reduce_s(4, 1000, Wire::Bf16), 9e-3);
        // 1001 numbers: parts of 251.
        close(SLOW.all_reduce_s(4, 1001, Wire::F32), 6.0 * 2.004e-3);
        // Two full buckets and one number: 2 · (1 ms + 4.194304 s) each, 2 · 1.004 ms.
        let numbers = 2 * BUCKET + 1;
        close(SLOW.all_reduce_s(2, numbers, Wire::F32), 4.0 * 4.195304 + 2.008e-3);
        assert_eq!(SLOW.all_reduce_s(4, 0, Wire::F32), 0.0);
        // Two rounds of 1 ms, twice, and 3 · 108 bytes; five ranks need three rounds.
        close(SLOW.gather_s(4, 100.0), 4e-3 + 0.324e-3);
        close(SLOW.gather_s(5, 100.0), 6e-3 + 0.432e-3);
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
