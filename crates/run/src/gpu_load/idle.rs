//! What a card waits for, and the warning about it.

use serde::Serialize;
use updraft_trainer::StepReport;

use super::sums::{Activity, LoadSums};

/// A card that is busy for a smaller fraction of the time waits for its host.
const ENOUGH: f64 = 0.8;

/// Ten seconds of samples: less is mostly the start of the program.
const FEWEST_SAMPLES: u64 = 20;

/// Where the host's time went in updates, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HostTimes {
    data_wait: u64,
    copy: u64,
    ranks: u64,
    total: u64,
}

impl HostTimes {
    pub(super) fn add(&mut self, report: &StepReport) {
        let times = &report.times;
        self.data_wait += times.data_wait_us;
        self.copy += times.copy_us;
        self.ranks += times.rank_wait_us + times.exchange_us;
        self.total += times.data_wait_us + report.step_us;
    }
}

/// The fractions of a run's time in which a card was idle, by what it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Idle {
    /// Batches that were not ready.
    data_wait_share: f64,
    /// Copies of batches to the card.
    copy_share: f64,
    /// Other ranks, and exchanges with them.
    ranks_share: f64,
    /// The host, between kernels of updates: what the others do not explain.
    submission_share: f64,
    evaluation_share: f64,
    checkpoint_share: f64,
}

impl Idle {
    /// `None` if it is not known how busy the card was.
    ///
    /// While the host waits, the card may compute what was submitted before: if the host's waits are
    /// longer than the card's, each of them counts by its share.
    pub(super) fn of(sums: &LoadSums, times: &HostTimes) -> Option<Self> {
        let all = sums.busy().count;
        if all == 0 {
            return None;
        }
        let during = |activity| sums.busy_during(activity).missing() / all as f64;
        let in_updates = during(Activity::Updates);
        let of_updates = sums.busy_during(Activity::Updates).count as f64 / all as f64;
        let waited = [times.data_wait, times.copy, times.ranks]
            .map(|us| of_updates * us as f64 / times.total.max(1) as f64);
        let explained: f64 = waited.iter().sum();
        let factor = if explained > in_updates { in_updates / explained } else { 1.0 };
        let [data_wait_share, copy_share, ranks_share] = waited.map(|share| factor * share);
        Some(Self {
            data_wait_share,
            copy_share,
            ranks_share,
            submission_share: (in_updates - explained).max(0.0),
            evaluation_share: during(Activity::Evaluation),
            checkpoint_share: during(Activity::Checkpoint),
        })
    }

    /// The warning about a card that is not busy enough, with what it waits for most and a remedy.
    pub(super) fn warning(&self, busy_share: f64, samples: u64) -> Option<String> {
        if busy_share >= ENOUGH || samples < FEWEST_SAMPLES {
            return None;
        }
        let causes = [
            (
                self.data_wait_share,
                "waits for batches: raise `train.workers`, or keep the data on the device with \
                 `train.resident`",
            ),
            (
                self.copy_share,
                "copies of batches to it: set `train.transfer` to `ahead`, or keep the data on the \
                 device with `train.resident`",
            ),
            (
                self.ranks_share,
                "waits for other ranks and exchanges with them: `report` has the times of each rank",
            ),
            (
                self.submission_share,
                "waits for the host between kernels of updates: raise `train.batch`, or \
                 `train.read_every` if each update is read",
            ),
            (
                self.evaluation_share,
                "evaluations after epochs: raise `train.workers`, or keep the data on the device \
                 with `train.resident`",
            ),
            (
                self.checkpoint_share,
                "writing checkpoints: raise `train.checkpoint_every_steps`, or write the run to \
                 faster storage",
            ),
        ];
        let (share, cause) = causes.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(format!(
            "the GPU computed in {:.0} % of the time, less than {:.0} %; {:.0} % of its idle time \
             were {cause}",
            (100.0 * busy_share).floor(),
            100.0 * ENOUGH,
            100.0 * share / (1.0 - busy_share),
        ))
    }
}

#[cfg(test)]
mod tests {
    use updraft_device::CardLoad;

    use super::*;

    /// Samples that are alike during each activity, as their number and busy share.
    fn sums(samples: [(u64, f64); 3]) -> LoadSums {
        let mut sums = LoadSums::default();
        let activities = [Activity::Updates, Activity::Evaluation, Activity::Checkpoint];
        for ((count, busy), activity) in samples.into_iter().zip(activities) {
            let load = CardLoad { busy_share: Some(busy), ..CardLoad::default() };
            (0..count).for_each(|_| sums.add(&load, activity));
        }
        sums
    }

    fn host(data_wait: u64, copy: u64, ranks: u64) -> HostTimes {
        HostTimes { data_wait, copy, ranks, total: 100 }
    }

    fn assert_shares(found: &Idle, expected: [f64; 6]) {
        let shares = [
            found.data_wait_share,
            found.copy_share,
            found.ranks_share,
            found.submission_share,
            found.evaluation_share,
            found.checkpoint_share,
        ];
        for (found, expected) in shares.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{shares:?}");
        }
    }

    #[test]
    fn idle_time_is_split_by_hand_calculated_shares() {
        // 60 samples of updates, half busy: 0.3 of all time is idle there. The host waited 20 % of
        // it for data and 10 % for copies: 0.12 and 0.06 of all time. 0.12 are left.
        let sums = sums([(60, 0.5), (30, 0.8), (10, 0.0)]);
        let idle = Idle::of(&sums, &host(20, 10, 0)).expect("samples");
        assert_shares(&idle, [0.12, 0.06, 0.0, 0.12, 0.06, 0.1]);
        let busy = sums.busy().mean().expect("samples");
        let total = 0.12 + 0.06 + 0.12 + 0.06 + 0.1;
        assert!((1.0 - busy - total).abs() < 1e-12, "{busy}");
    }

    #[test]
    fn waits_in_which_the_card_computed_do_not_count() {
        // The host waited all the time, the card was idle for a tenth of it.
        let idle = Idle::of(&sums([(50, 0.9), (0, 0.0), (0, 0.0)]), &host(60, 20, 20));
        assert_shares(&idle.expect("samples"), [0.06, 0.02, 0.02, 0.0, 0.0, 0.0]);
        assert_eq!(Idle::of(&LoadSums::default(), &host(1, 1, 1)), None);
    }

    #[test]
    fn the_warning_names_the_largest_cause_with_its_share_and_a_remedy() {
        for (samples, times, expected) in [
            (
                [(100, 0.5), (0, 0.0), (0, 0.0)],
                host(40, 5, 5),
                "80 % of its idle time were waits for batches: raise `train.workers`",
            ),
            ([(100, 0.5), (0, 0.0), (0, 0.0)], host(5, 40, 0), "80 % of its idle time were copies"),
            (
                [(100, 0.5), (0, 0.0), (0, 0.0)],
                host(0, 5, 40),
                "80 % of its idle time were waits for other ranks",
            ),
            (
                [(100, 0.5), (0, 0.0), (0, 0.0)],
                host(5, 0, 5),
                "80 % of its idle time were waits for the host",
            ),
            (
                [(50, 1.0), (50, 0.0), (0, 0.0)],
                host(0, 0, 0),
                "100 % of its idle time were evaluations",
            ),
            (
                [(50, 1.0), (0, 0.0), (50, 0.0)],
                host(0, 0, 0),
                "100 % of its idle time were writing checkpoints",
            ),
        ] {
            let sums = sums(samples);
            let busy = sums.busy();
            let idle = Idle::of(&sums, &times).expect("samples");
            let text = idle.warning(busy.mean().expect("samples"), busy.count);
            let text = text.expect("half of the time is idle");
            let start = "the GPU computed in 50 % of the time, less than 80 %; ";
            assert!(text.starts_with(start) && text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_busy_card_and_a_short_run_have_no_warning() {
        let idle = |busy| {
            let sums = sums([(FEWEST_SAMPLES, busy), (0, 0.0), (0, 0.0)]);
            Idle::of(&sums, &host(0, 0, 0)).expect("samples")
        };
        assert_eq!(idle(0.8).warning(0.8, FEWEST_SAMPLES), None);
        assert_eq!(idle(0.1).warning(0.1, FEWEST_SAMPLES - 1), None);
        let text = idle(0.7999).warning(0.7999, FEWEST_SAMPLES).expect("less than enough");
        assert!(text.contains("in 79 % of the time, less than 80 %"), "{text}");
    }
}
