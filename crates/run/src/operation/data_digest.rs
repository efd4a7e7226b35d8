//! The digest of a workload's data.

use updraft_data::Digest;

use crate::config::Plan;
use crate::error::RunError;
use crate::task::{StreamUse, Workload};

/// SHA-256 of the states of the streams of training and test data before the first batch, which
/// identify samples, order and preparation; the same on every device.
pub(super) fn data_digest<W: Workload>(workload: &W, plan: &Plan) -> Result<String, RunError> {
    let streams = workload.streams(plan, StreamUse::Reading)?;
    let states = [streams.train.epoch(0).state(), streams.test.epoch(0).state()];
    let digest = Digest::new("updraft data of a workload");
    Ok(states.iter().fold(digest, |digest, state| digest.text(&state.to_string())).hex())
}
