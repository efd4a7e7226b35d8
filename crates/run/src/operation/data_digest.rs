//! The digest of a workload's data.

use serde_json::{Value, json};
use updraft_data::{Digest, LoaderState};

use crate::config::Plan;
use crate::error::RunError;
use crate::task::{StreamUse, Workload};

/// SHA-256 of what identifies the samples of training and test data and their preparation, at any
/// batch size and in any order; the same on every device.
pub(super) fn data_digest<W: Workload>(workload: &W, plan: &Plan) -> Result<String, RunError> {
    let streams = workload.streams(plan, StreamUse::Reading)?;
    let states = [streams.train.epoch(0).state(), streams.test.epoch(0).state()];
    let digest = Digest::new("updraft data of a workload");
    Ok(states.iter().fold(digest, |digest, state| digest.text(&samples(state).to_string())).hex())
}

/// The part of a stream's state that does not depend on batches; all of it for a stream of another
/// kind than a loader.
fn samples(state: &Value) -> Value {
    match serde_json::from_value::<LoaderState>(state.clone()) {
        Ok(LoaderState { samples, source, settings, .. }) => json!([samples, source, settings]),
        Err(_) => state.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Plan;
    use crate::task::{Opening, TASKS};

    #[test]
    fn the_digest_is_that_of_the_samples_at_any_batch_size() {
        let digest = |sets: &[&str]| {
            let small = ["data.train_images=40", "data.test_images=20"];
            let sets = small.iter().chain(sets).map(|set| (*set).to_owned()).collect::<Vec<_>>();
            let plan = Plan::read(TASKS, "", Path::new("c.toml"), &sets).expect("valid").plan;
            let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
            let workload = plan.task.open(&plan, opening).expect("generated");
            workload.data_digest(&plan).expect("streams")
        };
        let _alone = updraft_testing::alone();
        let own = digest(&["train.batch=20"]);
        assert_eq!(digest(&["train.batch=8"]), own);
        for other in ["seed=2", "data.train_images=41", "data.std=[0.3, 0.25, 0.25]"] {
            assert_ne!(digest(&["train.batch=20", other]), own, "{other}");
        }
    }
}
