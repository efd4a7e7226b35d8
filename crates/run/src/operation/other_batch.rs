//! The batch size of a run that is resumed within an epoch.

use std::path::Path;

use burn::module::Module;
use updraft_data::DataError;
use updraft_trainer::{BatchStream, Run};

use crate::error::RunError;

/// Returns an error for a run that is resumed within an epoch with another batch size, before later
/// checkpoints are renamed. Other differences are errors of the training.
pub(super) fn refuse_other_batch<B, M: Module>(
    stream: &dyn BatchStream<B>,
    run: &Run<M>,
    folder: &Path,
) -> Result<(), RunError> {
    let state = run.state();
    let Some(Err(cause)) = state.loader.as_ref().map(|at| stream.resume(state.epoch, at)) else {
        return Ok(());
    };
    let Some(DataError::ForeignState { setting: "batch", loader, state }) = cause.downcast_ref()
    else {
        return Ok(());
    };
    let reason = format!(
        "`train.batch` is {loader}; the checkpoint is from within an epoch of batches of {state}: \
         set it back in `{}`, or resume at the end of an epoch with --checkpoint STEP",
        folder.join("plan.toml").display()
    );
    Err(RunError::Unusable { reason })
}
