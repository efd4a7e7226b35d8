//! Results of a search: the best trials, their configs and their weights.

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use updraft_data::read_regular;
use updraft_run::KeepPlan;
use updraft_tune::{Objective, Study, TrialRecord, TrialState, importance, pareto_front};

use crate::command::cannot;
use crate::whole_file::write_whole;

/// The largest plan of a trial.
const MOST_BYTES: u64 = 16 << 20;

/// The results of a study.
pub(crate) struct Found {
    pub(crate) trials: Vec<TrialRecord>,
    /// The best trial, or with several objectives the Pareto front, sorted by the first objective.
    pub(crate) front: Vec<TrialRecord>,
    /// The share of each key in each objective's variance.
    pub(crate) importance: Vec<Vec<(String, f64)>>,
}

impl Found {
    pub(crate) fn of(study: &Study) -> Self {
        let (trials, settings) = (study.trials(), study.settings());
        let objectives = 0..settings.objectives.len();
        let importance = objectives.map(|at| importance(&settings.space, &trials, at)).collect();
        Self { front: front(&settings.objectives, &trials), trials, importance }
    }

    pub(crate) fn count(&self, state: TrialState) -> usize {
        self.trials.iter().filter(|trial| trial.state == state).count()
    }
}

/// The best trial (the first of equal ones) for one objective, the Pareto front for several.
pub(crate) fn front(objectives: &[Objective], trials: &[TrialRecord]) -> Vec<TrialRecord> {
    let finished: Vec<&TrialRecord> =
        trials.iter().filter(|trial| trial.state == TrialState::Finished).collect();
    let losses = |trial: &&TrialRecord| -> Vec<f64> {
        objectives.iter().zip(&trial.values).map(|(it, &value)| it.direction.loss(value)).collect()
    };
    let all: Vec<Vec<f64>> = finished.iter().map(losses).collect();
    let mut places = pareto_front(&all);
    places.sort_by(|a, b| all[*a][0].total_cmp(&all[*b][0]));
    if objectives.len() == 1 {
        places.truncate(1);
    }
    places.into_iter().map(|at| finished[at].clone()).collect()
}

/// Removes the checkpoints of finished trials that are not kept; the other files of a run stay.
pub(crate) fn keep_weights(study: &Study, keep: KeepPlan) -> Result<()> {
    if keep == KeepPlan::All {
        return Ok(());
    }
    let trials = study.trials();
    let front = front(&study.settings().objectives, &trials);
    for trial in trials.iter().filter(|trial| trial.state.is_over()) {
        let is_kept = front.iter().any(|best| best.number == trial.number);
        let Some(run) = run_of(study.folder(), trial).filter(|_| !is_kept) else { continue };
        let checkpoints = run.join("checkpoints");
        match std::fs::remove_dir_all(&checkpoints) {
            // Another process may have removed them already.
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(cannot("remove", &checkpoints, cause));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The run folder of a trial.
pub(crate) fn run_of(study: &Path, trial: &TrialRecord) -> Option<PathBuf> {
    trial.note.as_ref().map(|note| study.join(note))
}

/// Writes the configs of the best trials into the study's folder and returns their paths:
/// `best.toml`, or `front/trial-N.toml` for each trial on the front.
pub(crate) fn write_configs(study: &Study, found: &Found) -> Result<Vec<PathBuf>> {
    let objectives = &study.settings().objectives;
    let folder = study.folder().join("front");
    let mut written = Vec::new();
    for trial in &found.front {
        let Some(run) = run_of(study.folder(), trial) else { continue };
        let file = run.join("plan.toml");
        let failed = || format!("cannot read `{}`", file.display());
        let plan = read_regular(&file, MOST_BYTES).with_context(failed)?;
        let plan = String::from_utf8(plan).with_context(failed)?;
        let number = trial.number;
        let mut text = format!("# Trial {number} of the study `{}`:", study.folder().display());
        for (objective, value) in objectives.iter().zip(&trial.values) {
            let _ = write!(text, " {} {}", objective.name, value_text(*value));
        }
        text = format!("{}\n{plan}", text.replace('\n', " "));
        let path = match objectives.len() {
            1 => study.folder().join("best.toml"),
            _ => {
                std::fs::create_dir_all(&folder).map_err(|it| cannot("create", &folder, it))?;
                folder.join(format!("trial-{number}.toml"))
            }
        };
        write_whole(&path, &text)?;
        written.push(path);
    }
    Ok(written)
}

/// The objectives of a trial with their names, the epoch at which it was pruned, or why it failed.
pub(crate) fn result_text(objectives: &[Objective], trial: &TrialRecord) -> String {
    match trial.state {
        TrialState::Finished => {
            let both = objectives.iter().zip(&trial.values);
            let texts = both.map(|(it, value)| format!("{} {}", it.name, value_text(*value)));
            texts.collect::<Vec<_>>().join("  ")
        }
        TrialState::Pruned => match trial.intermediate.last() {
            Some((epoch, value)) => {
                let name = &objectives[0].name;
                format!("pruned at epoch {epoch}, {name} {}", value_text(*value))
            }
            None => "pruned".to_owned(),
        },
        _ => trial.reason.clone().unwrap_or_default(),
    }
}

/// A number with few digits; whole numbers are not rounded.
pub(crate) fn value_text(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value}");
    }
    match value.abs() {
        1e-3..1e4 => format!("{value:.4}"),
        _ => format!("{value:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use updraft_tune::Direction;

    use super::*;

    fn trial(number: u64, state: TrialState, values: &[f64]) -> TrialRecord {
        TrialRecord {
            number,
            attempt: 1,
            lost: 0,
            point: Vec::new(),
            state,
            intermediate: Vec::new(),
            values: values.to_vec(),
            reason: None,
            note: None,
            seconds: 0.0,
            worker: String::new(),
        }
    }

    #[test]
    fn the_front_has_finished_trials_only_and_one_objective_has_one_best() {
        let objective = |name: &str, direction| Objective { name: name.to_owned(), direction };
        let trials = [
            trial(0, TrialState::Finished, &[0.8, 100.0]),
            trial(1, TrialState::Finished, &[0.9, 200.0]),
            trial(2, TrialState::Finished, &[0.7, 150.0]),
            trial(3, TrialState::Failed, &[]),
            trial(4, TrialState::Finished, &[0.9, 200.0]),
        ];
        let both = [
            objective("test-auc", Direction::Maximize),
            objective("parameters", Direction::Minimize),
        ];
        let numbers = |objectives: &[Objective]| -> Vec<u64> {
            front(objectives, &trials).iter().map(|trial| trial.number).collect()
        };
        assert_eq!(numbers(&both), [1, 4, 0]);
        assert_eq!(numbers(&both[..1]), [1]);
    }

    #[test]
    fn numbers_are_short() {
        let found = [0.912_345, 12_345.6, 3.0, 0.000_012_3].map(value_text);
        assert_eq!(found, ["0.9123", "1.235e4", "3", "1.230e-5"]);
    }
}
