//! Pruning: stops trials that do worse than others, with the pruners of the crate `optimizer`.

use std::collections::HashMap;

use optimizer::TrialState as State;
use optimizer::pruner::{HyperbandPruner, MedianPruner, Pruner, SuccessiveHalvingPruner};
use optimizer::sampler::CompletedTrial;

use crate::objective::Direction;
use crate::settings::PrunerSettings;
use crate::trial::{TrialRecord, TrialState};

/// Whether a running trial must stop at its last reported step, compared with finished and pruned
/// trials.
pub(crate) fn is_pruned(
    settings: PrunerSettings,
    direction: Direction,
    steps: u64,
    trial: &TrialRecord,
    trials: &[TrialRecord],
) -> bool {
    let Some(&(step, _)) = trial.intermediate.last() else { return false };
    let direction = match direction {
        Direction::Minimize => optimizer::Direction::Minimize,
        Direction::Maximize => optimizer::Direction::Maximize,
    };
    let over: Vec<CompletedTrial> = trials.iter().filter_map(completed).collect();
    let pruner: Box<dyn Pruner> = match settings {
        PrunerSettings::Median { startup, warmup } => Box::new(
            MedianPruner::new(direction).n_warmup_steps(warmup + 1).n_min_trials(startup.max(1)),
        ),
        PrunerSettings::SuccessiveHalving { first, reduction } => Box::new(
            SuccessiveHalvingPruner::new()
                .min_resource(first)
                .max_resource(steps.max(first))
                .reduction_factor(reduction)
                .direction(direction),
        ),
        PrunerSettings::Hyperband { first, reduction } => {
            let pruner = HyperbandPruner::new()
                .min_resource(first)
                .max_resource(steps.max(first))
                .reduction_factor(reduction)
                .direction(direction);
            // It assigns brackets in the order of the first calls. Call it in the order of the
            // numbers, so that every process and every restart assigns the same brackets.
            for number in 0..=trial.number.max(trials.len() as u64) {
                pruner.should_prune(number, 0, &[], &[]);
            }
            Box::new(pruner)
        }
    };
    pruner.should_prune(trial.number, step, &trial.intermediate, &over)
}

/// A finished or pruned trial as a type of the crate `optimizer`; `None` for any other trial.
fn completed(trial: &TrialRecord) -> Option<CompletedTrial> {
    let state = match trial.state {
        TrialState::Finished => State::Complete,
        TrialState::Pruned => State::Pruned,
        _ => return None,
    };
    let value = trial.values.first().copied().unwrap_or(f64::NAN);
    let (params, of, names) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut completed = CompletedTrial::new(trial.number, params, of, names, value);
    completed.intermediate_values.clone_from(&trial.intermediate);
    completed.state = state;
    Some(completed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial with the values of a curve, one for each step.
    fn trial(number: u64, state: TrialState, curve: &[f64]) -> TrialRecord {
        let intermediate = curve.iter().enumerate().map(|(at, value)| (at as u64 + 1, *value));
        TrialRecord {
            number,
            attempt: 1,
            lost: 0,
            point: Vec::new(),
            state,
            intermediate: intermediate.collect(),
            values: curve.last().copied().into_iter().collect(),
            reason: None,
            note: None,
            seconds: 0.0,
            worker: String::new(),
        }
    }

    /// Nine finished trials with losses 1 to 9 at every step.
    fn finished() -> Vec<TrialRecord> {
        let curve = |number: u64| [number as f64 + 1.0; 9];
        (0..9).map(|number| trial(number, TrialState::Finished, &curve(number))).collect()
    }

    fn ends(settings: PrunerSettings, value: f64, steps: usize) -> bool {
        let running = trial(9, TrialState::Running, &vec![value; steps]);
        is_pruned(settings, Direction::Minimize, 9, &running, &finished())
    }

    #[test]
    fn the_median_ends_the_worse_half_after_its_warmup() {
        let median = PrunerSettings::Median { startup: 5, warmup: 2 };
        assert!(ends(median, 5.5, 3) && !ends(median, 4.5, 3));
        assert!(!ends(median, 5.5, 2), "two steps of warmup");
        let late = PrunerSettings::Median { startup: 10, warmup: 0 };
        assert!(!ends(late, 99.0, 3), "only nine trials are finished");
        let running = trial(9, TrialState::Running, &[5.5]);
        let settings = PrunerSettings::Median { startup: 5, warmup: 0 };
        let is_pruned = |direction| is_pruned(settings, direction, 9, &running, &finished());
        assert!(is_pruned(Direction::Minimize) && !is_pruned(Direction::Maximize));
    }

    #[test]
    fn halving_keeps_a_part_at_its_rungs_and_all_at_the_last_step() {
        let halving = PrunerSettings::SuccessiveHalving { first: 1, reduction: 3 };
        // The best third of ten is four with the new one.
        assert!(ends(halving, 4.5, 1) && !ends(halving, 3.5, 1));
        assert!(ends(halving, 4.5, 3) && !ends(halving, 9.0, 9));
    }

    #[test]
    fn the_brackets_of_hyperband_begin_at_different_steps() {
        let hyperband = PrunerSettings::Hyperband { first: 1, reduction: 3 };
        // Nine steps have the brackets 1, 3 and 9, which trials take in turn.
        let at = |number: u64, steps: usize| {
            let mut others: Vec<TrialRecord> =
                (0..27).map(|it| trial(it, TrialState::Finished, &[1.0; 9])).collect();
            others.truncate(number as usize);
            let running = trial(number, TrialState::Running, &vec![9.0; steps]);
            is_pruned(hyperband, Direction::Minimize, 9, &running, &others)
        };
        assert_eq!([at(24, 1), at(25, 1), at(26, 1)], [true, false, false]);
        assert_eq!([at(24, 3), at(25, 3), at(26, 3)], [true, true, false]);
    }
}
