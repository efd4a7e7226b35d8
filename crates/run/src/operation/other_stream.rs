//! The stream of batches that a run within an epoch continues.

use std::path::Path;

use burn::module::Module;
use updraft_data::DataError;
use updraft_trainer::{BatchStream, Run, TrainError};

use crate::error::RunError;

/// Returns an error for a run that is resumed within an epoch with another batch size, other data or
/// other settings of its stream, before later checkpoints are renamed.
pub(super) fn refuse_other_stream<B, M: Module>(
    stream: &dyn BatchStream<B>,
    run: &Run<M>,
    folder: &Path,
) -> Result<(), RunError> {
    let at = run.state();
    let Some(Err(cause)) = at.loader.as_ref().map(|state| stream.check_state(state)) else {
        return Ok(());
    };
    let Some(DataError::ForeignState { setting: "batch", loader, state }) = cause.downcast_ref()
    else {
        return Err(TrainError::Data { epoch: at.epoch, split: "training", cause }.into());
    };
    let reason = format!(
        "`train.batch` is {loader}; the checkpoint is from within an epoch of batches of {state}: \
         set it back in `{}`, or resume at the end of an epoch with --checkpoint STEP",
        folder.join("plan.toml").display()
    );
    Err(RunError::Unusable { reason })
}
