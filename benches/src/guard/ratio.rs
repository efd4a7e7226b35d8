//! The ratios of an entry: another strategy's time over ours, process by process.

use crate::guard::rule::Process;
use crate::measure::{Measured, Outcome};
use crate::statistics::quartiles;
use crate::strategy::Role;

/// Our strategy of an entry, which its ratios are of; `None` if it was not timed.
pub(crate) fn ours(measured: &Measured) -> Option<&Outcome> {
    let mut timed = measured.outcomes.iter().filter(|outcome| outcome.timing.is_some());
    timed.find(|outcome| outcome.role == Role::Dispatched)
}

/// The strategies that ours is compared with: other projects, burn's operations, and other builds
/// or numbers of ours. Forced paths are what ours chooses from.
pub(crate) fn others(measured: &Measured) -> impl Iterator<Item = &Outcome> {
    let is_other = |role: Role| matches!(role, Role::Peer | Role::Baseline | Role::Variant);
    let timed = measured.outcomes.iter().filter(|outcome| outcome.timing.is_some());
    timed.filter(move |outcome| is_other(outcome.role))
}

/// The ratio of a strategy to ours in every process that timed both; empty if one is not there.
pub(crate) fn processes(measured: &Measured, other: &str, threads: usize) -> Vec<Process> {
    let other = measured.outcomes.iter().find(|outcome| outcome.strategy == other);
    let other = other.and_then(|other| other.timing.as_ref());
    let ours = ours(measured).and_then(|ours| ours.timing.as_ref());
    let (Some(ours), Some(other)) = (ours, other) else { return Vec::new() };
    let pairs = ours.processes(threads).zip(other.processes(threads));
    pairs.filter_map(|(ours, other)| of_samples(ours, other)).collect()
}

/// The ratio of two strategies that took turns in one process each.
///
/// A round's samples are divided by each other before the median is taken: what slows a whole
/// round cancels. `None` without a common round.
pub(crate) fn of_samples(ours: &[f64], other: &[f64]) -> Option<Process> {
    let logs: Vec<f64> = ours.iter().zip(other).map(|(ours, other)| (other / ours).ln()).collect();
    let [low, log_ratio, high] = quartiles(&logs)?;
    // The standard error of a median of normal numbers, whose deviation is that of the quartiles.
    let deviation = (high - low) / 1.349;
    let error = (std::f64::consts::FRAC_PI_2 / logs.len() as f64).sqrt() * deviation;
    Some(Process { log_ratio, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    #[test]
    fn what_slows_a_whole_round_cancels() {
        let drift = [1.0, 1.3, 0.7, 2.0, 1.1];
        let ours = drift.map(|speed| 10.0 * speed);
        let other = drift.map(|speed| 30.0 * speed);
        let ratio = of_samples(&ours, &other).expect("rounds");
        assert!((ratio.log_ratio - 3_f64.ln()).abs() < 1e-12 && ratio.error < 1e-12, "{ratio:?}");
        assert_eq!(of_samples(&[], &other), None);
    }

    #[test]
    fn each_process_has_a_ratio_of_the_clock_that_counts() {
        let strategies = [
            ("updraft", Role::Dispatched, Some(10.0)),
            ("updraft-avx2", Role::Forced, Some(10.0)),
            ("flex", Role::Baseline, Some(20.0)),
            ("pytorch", Role::Peer, None),
        ];
        let mut measured = synthetic::run("a CPU", &strategies).entries.remove(0);
        for outcome in &mut measured.outcomes {
            if let Some(timing) = &mut outcome.timing {
                timing.wall_ns = vec![timing.wall_ns[0]; 5];
                timing.cpu_ns = vec![1.0; 5];
                timing.starts = vec![2];
            }
        }
        let flex = measured.outcomes[2].timing.as_mut().expect("timed");
        flex.wall_ns[2..].fill(40.0);
        let ratios = processes(&measured, "flex", 2);
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.log_ratio.exp().round()).collect();
        assert_eq!(logs, [2.0, 4.0]);
        let of_one_thread = processes(&measured, "flex", 1);
        assert!(of_one_thread.len() == 2 && of_one_thread.iter().all(|one| one.log_ratio == 0.0));
        assert!(processes(&measured, "pytorch", 2).is_empty());
        assert_eq!(others(&measured).map(|other| &other.strategy).collect::<Vec<_>>(), ["flex"]);
    }
}
