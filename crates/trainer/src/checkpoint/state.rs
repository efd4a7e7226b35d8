//! The state of a run between two steps.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use updraft_precision::LossScaleState;

use super::error::CheckpointError;
use super::files::STATE;
use crate::comparison::{EpochScore, Record};
use crate::metric::{Evaluation, LossSums, stored};
use crate::plateau::PlateauState;

/// The state of a run between two steps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunState {
    /// Updates made.
    pub step: u64,
    /// The epoch the next batch belongs to, counted from 0.
    pub epoch: u64,
    /// The state of that epoch's stream, as [`EpochStream::state`](crate::EpochStream::state)
    /// returned it; `None` before its first batch.
    pub loader: Option<Value>,
    /// The epoch's losses so far.
    pub sums: LossSums,
    /// The epoch's score so far, as serialized by the task's score; null before its first batch.
    pub epoch_score: Value,
    /// Consecutive updates that were skipped because of a non-finite value.
    pub skipped_in_a_row: u64,
    /// The state of the loss scale, if there is one.
    pub loss_scale: Option<LossScaleState>,
    /// The number of updates of the parameters' average, if one is kept.
    pub ema_updates: Option<u64>,
    /// The updates that were applied, where the device decides about them: each group of updates
    /// begins with it.
    #[serde(skip)]
    pub(crate) applied: Option<u64>,
    /// The metrics of the test data, at the end of an epoch.
    #[serde(with = "stored")]
    pub test: Option<Evaluation>,
    /// The values by which checkpoints are compared, at the end of an epoch.
    pub(crate) scores: Vec<EpochScore>,
    /// The best epoch so far, for early stopping.
    pub(crate) best: Record,
    /// The state of the learning rate's reductions.
    pub(crate) plateau: PlateauState,
}

/// The content of a checkpoint's state file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredState {
    #[serde(flatten)]
    pub(super) run: RunState,
    /// The paths of trained parameters without optimizer state.
    pub(super) without_optimizer_state: Vec<String>,
}

/// The largest count in a state, 2⁵³: no run reaches it, and later sums and products do not
/// overflow 64 bits.
const MOST: u64 = 1 << 53;

/// The only field whose numbers are not counts: every seed is allowed.
const SEED: &str = "seed";

/// Returns an error for counts above the limit anywhere in a state: the run adds to them.
pub(super) fn check_numbers(folder: &Path, state: &Value) -> Result<(), CheckpointError> {
    match first_bad(state, &mut Vec::new()) {
        None => Ok(()),
        Some((field, value)) => {
            let expected = "a number of at most 2^53, not below 0 where it counts";
            Err(CheckpointError::State { path: folder.join(STATE), field, value, expected })
        }
    }
}

fn first_bad<'a>(value: &'a Value, path: &mut Vec<&'a str>) -> Option<(String, String)> {
    match value {
        Value::Number(number) => {
            let is_counted = number.is_u64() && path.last() != Some(&SEED);
            let is_bad = is_counted && number.as_u64().is_some_and(|count| count > MOST);
            (is_bad || number.is_i64() && number.as_i64() < Some(0))
                .then(|| (path.join("."), number.to_string()))
        }
        Value::Array(values) => values.iter().find_map(|value| first_bad(value, path)),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            path.push(name);
            let found = first_bad(value, path);
            path.pop();
            found
        }),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::comparison::tests::{compared, scored};
    use crate::metric::{Direction, Metric, MetricSpec, Sum, Unit};

    #[test]
    fn a_state_with_scores_and_sums_as_they_are_written_is_accepted() {
        let specs = [MetricSpec::new("loss", Unit::None, Direction::LowerIsBetter)];
        let mut state = RunState { step: 3, ..RunState::default() };
        state.sums.add(0.3, &[0.1], 7);
        state.epoch_score = serde_json::to_value(Sum::from(0.7)).expect("a value");
        let metrics = specs.map(|spec| Metric { spec, value: Some(1.1) }).to_vec();
        state.test = Some(Evaluation { metrics, samples: 7 });
        let loss = compared("test-loss", Direction::LowerIsBetter);
        state.best.take(&loss, 1.1, 0.0);
        state.scores = vec![scored(loss, 1.1)];
        let stored = serde_json::to_value(&state).expect("a value");
        check_numbers(Path::new("a"), &stored).expect("whole");
        let back: RunState = serde_json::from_value(stored).expect("a state");
        assert_eq!(back, state);
    }

    #[test]
    fn counts_that_no_run_reaches_are_refused_by_their_place() {
        let whole = json!({ "step": 12, "sums": { "samples": MOST, "losses": [[-0.5, 1e300]] },
                            "loader": { "seed": u64::MAX, "position": 3 }, "test": null });
        assert!(check_numbers(Path::new("a"), &whole).is_ok());
        for (state, said) in [
            (
                json!({ "step": u64::MAX }),
                "state.json` is not the state of a run: `step` is 18446744073709551615",
            ),
            (json!({ "sums": { "samples": u64::MAX } }), "`sums.samples` is 18446744073709551615"),
            (
                json!({ "epoch_score": { "correct": [1, MOST + 1] } }),
                "`epoch_score.correct` is 9007199254740993",
            ),
            (json!({ "loader": { "position": -1 } }), "`loader.position` is -1"),
        ] {
            let error = check_numbers(Path::new("a"), &state).expect_err("refused").to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
