//! Every name this crate promises: removing one breaks this file, not a user.

use updraft_trainer::{
    CheckpointError, CheckpointSettings, Control, Ending, EpochReport, EpochSums, Evaluation,
    Event, Finished, OptimizerConfig, Run, RunData, RunSettings, RunState, Schedule, StepOutcome,
    StepReport, StepSettings, TrainError, evaluate, list_checkpoints, load_checkpoint, load_model,
    prune_checkpoints, save_checkpoint, train_step,
};

use crate::small::Classifier;

#[test]
fn the_promised_names_are_there() {
    let _ = size_of::<(Run<Classifier>, Finished<Classifier>, RunData<'_>, RunSettings)>();
    let _ = size_of::<(CheckpointSettings, StepSettings, StepOutcome, Schedule, OptimizerConfig)>();
    let _ = size_of::<(Event, StepReport, EpochReport, Evaluation, Control, Ending)>();
    let _ = size_of::<(RunState, EpochSums, CheckpointError, TrainError)>();
    let _ = evaluate::<Classifier>;
    let _ = train_step::<Classifier>;
    let _ =
        (load_checkpoint::<Classifier>, load_model::<Classifier>, save_checkpoint::<Classifier>);
    let _ = (list_checkpoints, prune_checkpoints);
}
