//! The rule that decides whether a ratio fell, from the ratios of several processes.

use crate::guard::student::upper_quantile;

/// A slowdown of ours by this share is to be found.
pub(crate) const GUARDED: f64 = 0.10;

/// A slowdown that is certain to be at most this share is not reported: the place of code and data
/// in memory, which any edit moves, changes times by as much (Mytkowicz et al. 2009, "Producing
/// wrong data without doing anything obviously wrong").
const IGNORED: f64 = 0.03;

/// Of runs without a slowdown, the share in which one of all ratios may be said to have fallen.
const FALSE_ALARMS: f64 = 0.05;

/// Of ratios with a slowdown of [`GUARDED`], the share that may be said to have stayed.
const MISSES: f64 = 0.05;

/// The numbers of processes after which is decided, or more are added.
pub(crate) const LOOKS: [usize; 6] = [4, 6, 9, 13, 18, 24];

/// What one process measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Process {
    /// The logarithm of the other strategy's time over ours: the median of the rounds.
    pub(crate) log_ratio: f64,
    /// The standard error of that median, from the rounds.
    pub(crate) error: f64,
}

/// Whether a ratio fell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Ours became slower than the noise of both runs explains.
    Fell,
    /// A slowdown of [`GUARDED`] is excluded, or what there is is too small to report.
    Stayed,
    /// More processes are needed.
    Open,
}

/// The change of a ratio between two runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    /// How much more time ours takes beside the other strategy, as a share.
    pub(crate) slower: f64,
    /// The standard error of `slower`.
    pub(crate) error: f64,
    pub(crate) decision: Decision,
}

/// Decides about one of `ratios` ratios that are compared together.
///
/// The noise is the scatter between processes, of both runs together, and at least what the rounds
/// within a process scatter; a run of one process has the scatter of the other run.
/// The chances of a wrong decision are divided among the ratios and the numbers of [`LOOKS`]
/// (Bonferroni).
///
/// # Panics
/// If a run has no process, or both have one only.
pub(crate) fn decide(before: &[Process], after: &[Process], ratios: usize) -> Change {
    let mean = |of: &[Process]| of.iter().map(|one| one.log_ratio).sum::<f64>() / of.len() as f64;
    let (was, is) = (mean(before), mean(after));
    let squares = |of: &[Process], mean: f64| {
        of.iter().map(|one| (one.log_ratio - mean).powi(2)).sum::<f64>()
    };
    let freedom = before.len() + after.len() - 2;
    assert!(freedom > 0 && !before.is_empty() && !after.is_empty(), "several processes");
    let between = (squares(before, was) + squares(after, is)) / freedom as f64;
    let within = before.iter().chain(after).map(|one| one.error.powi(2)).sum::<f64>()
        / (before.len() + after.len()) as f64;
    let share = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
    let error = (between.max(within) * share).sqrt();

    let slower = was - is;
    let looks = LOOKS.len() as f64;
    let alarm = upper_quantile(FALSE_ALARMS / looks / ratios.max(1) as f64, freedom);
    let miss = upper_quantile(MISSES / looks, freedom);
    let decision = if slower - alarm * error > IGNORED.ln_1p() {
        Decision::Fell
    } else if slower + miss * error < GUARDED.ln_1p() {
        Decision::Stayed
    } else {
        Decision::Open
    };
    Change { slower: slower.exp_m1(), error, decision }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula;

    /// Normal numbers, by Box and Muller.
    struct Noise(u32);

    impl Noise {
        fn uniform(&mut self) -> f64 {
            self.0 += 1;
            f64::from(formula::entry(0x5EED, self.0)).midpoint(1.0)
        }

        fn normal(&mut self) -> f64 {
            let (radius, angle) = ((-2.0 * (1.0 - self.uniform()).ln()).sqrt(), self.uniform());
            radius * (std::f64::consts::TAU * angle).cos()
        }
    }

    /// The times of a machine that is shared: every round has a speed of its own, for both
    /// strategies; every process of a strategy has another; one sample in ten is disturbed.
    fn processes(noise: &mut Noise, count: usize, slower: f64, scatter: f64) -> Vec<Process> {
        let mut drift = 0.0;
        (0..count)
            .map(|_| {
                let (ours, other) = (scatter * noise.normal(), scatter * noise.normal());
                let rounds = (0..15).map(|_| {
                    drift = 0.9 * drift + 0.05 * noise.normal();
                    let mut sample = |process: f64| {
                        let disturbed =
                            if noise.uniform() < 0.1 { noise.uniform() / 2.0 } else { 0.0 };
                        drift + process + 0.02 * noise.normal() + disturbed
                    };
                    let (ours, other) = (sample(ours + slower.ln_1p()), sample(other));
                    (ours.exp(), other.exp())
                });
                let (ours, other): (Vec<_>, Vec<_>) = rounds.unzip();
                crate::guard::ratio::of_samples(&ours, &other).expect("fifteen rounds")
            })
            .collect()
    }

    /// Whether any ratio fell, and whether all were decided.
    fn run(noise: &mut Noise, saved: usize, slowdowns: &[f64], scatter: f64) -> (bool, bool) {
        let (mut fell, mut decided) = (false, true);
        for slower in slowdowns {
            let before = processes(noise, saved, 0.0, scatter);
            let mut after = Vec::new();
            let mut decision = Decision::Open;
            for look in LOOKS {
                after.extend(processes(noise, look - after.len(), *slower, scatter));
                decision = decide(&before, &after, slowdowns.len()).decision;
                if decision != Decision::Open {
                    break;
                }
            }
            fell |= decision == Decision::Fell;
            decided &= decision != Decision::Open;
        }
        (fell, decided)
    }

    #[test]
    fn a_slowdown_of_a_tenth_is_caught_and_none_is_invented() {
        const RUNS: usize = 100;
        let mut noise = Noise(0);
        // A single ratio, and one of six that fell; the fewer processes were saved, the less may
        // they differ.
        for (saved, others, scatter) in [(9, 0, 0.02), (9, 5, 0.02), (4, 5, 0.01)] {
            let quiet = vec![0.0; others + 1];
            let mut planted = quiet.clone();
            planted[others / 2] = GUARDED;
            let (mut red, mut caught, mut open) = (0, 0, 0);
            for _ in 0..RUNS {
                let (fell, decided) = run(&mut noise, saved, &quiet, scatter);
                // A run that could not decide fails, too.
                red += usize::from(fell || !decided);
                open += usize::from(!decided);
                caught += usize::from(run(&mut noise, saved, &planted, scatter).0);
            }
            let seen = format!("{saved} {others}: {red} red, {open} open, {caught} caught");
            println!("{seen}");
            assert!(red <= RUNS / 10 && caught >= RUNS * 9 / 10, "{seen}");
        }
    }

    #[test]
    fn one_saved_process_decides_where_processes_agree_and_is_open_where_they_do_not() {
        let mut noise = Noise(1 << 20);
        let count = |noise: &mut Noise, slower, scatter| {
            let runs = (0..40).map(|_| run(noise, 1, &[slower], scatter));
            runs.fold((0, 0), |(fell, open), (this_fell, decided)| {
                (fell + usize::from(this_fell), open + usize::from(!decided))
            })
        };
        let (fell, open) = count(&mut noise, 0.0, 0.005);
        assert!(fell == 0 && open <= 4, "{fell} fell, {open} open");
        let (fell, _) = count(&mut noise, GUARDED, 0.005);
        assert!(fell >= 36, "{fell} fell");
        let (fell, open) = count(&mut noise, 0.0, 0.1);
        assert!(fell <= 4 && open >= 20, "{fell} fell, {open} open");
    }

    #[test]
    fn a_faster_ratio_and_a_small_slowdown_are_no_regression() {
        let exact = |log_ratio| vec![Process { log_ratio, error: 1e-4 }; 4];
        let decision = |is| decide(&exact(0.0), &exact(is), 1).decision;
        assert_eq!(decision(0.5), Decision::Stayed);
        assert_eq!(decision(-0.02), Decision::Stayed);
        assert_eq!(decision(-0.05), Decision::Fell);
        let change = decide(&exact(0.0), &exact(-0.1_f64.ln_1p()), 1);
        assert!((change.slower - 0.1).abs() < 1e-9, "{change:?}");
    }
}
