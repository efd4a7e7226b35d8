//! Every name this crate promises: removing one breaks this file, not a user.

use updraft_data::{ImageBatch, ImageCollate, TensorBatch};
use updraft_trainer::{
    Activity, Asymmetric, BatchFound, BatchNormStatistics, BatchSearch, CheckpointError,
    CheckpointSettings, ClassLoss, Control, Criterion, EarlyStop, Ema, EmaConfig, Ending,
    EpochReport, EpochSums, Evaluation, Event, Finished, Fit, GradientMean, Keep, Loaded, LrPoint,
    LrRange, MixedClasses, NonFinite, OptimizerConfig, Passes, Plateau, Run, RunData, RunSettings,
    RunState, SamplesF1, Schedule, SegmentedPass, Segments, Skipped, Snapshot, StepAt, StepOutcome,
    StepReport, StepSettings, StepTimes, Target, Timing, TrainBatch, TrainError, Transfer,
    UncertaintyWeights, best_checkpoint, binary_cross_entropy, check_checkpoint, cross_entropy,
    dice_cross_entropy, evaluate, find_learning_rate, focal, list_checkpoints, load_checkpoint,
    load_model, mean_squared_error, prune_checkpoints, recompute_batch_norms, save_checkpoint,
    soft_cross_entropy, soft_targets, suggest_learning_rate, train_step, train_step_accumulated,
};

use crate::small::Classifier;

#[test]
fn the_promised_names_are_there() {
    let _ = size_of::<(Run<Classifier>, Finished<Classifier>, RunData<'_>, RunSettings)>();
    let _ = size_of::<(CheckpointSettings, StepSettings, StepOutcome, Schedule, OptimizerConfig)>();
    let _ = size_of::<(Event, StepReport, EpochReport, Evaluation, Control, Ending)>();
    let _ = size_of::<(RunState, EpochSums, CheckpointError, TrainError)>();
    let _ = evaluate::<Classifier, ImageCollate, 4>;
    let _ = |mixed: MixedClasses| Target::Mixed(Box::new(mixed));
    let _ = train_step::<Classifier, 4, Target>;
    let _ =
        (load_checkpoint::<Classifier>, load_model::<Classifier>, save_checkpoint::<Classifier>);
    let _ = (list_checkpoints, prune_checkpoints, best_checkpoint, check_checkpoint);
    let _ = size_of::<(Activity, BatchNormStatistics, Criterion, EarlyStop, Plateau, Keep)>();
    let _ = size_of::<(Ema<Classifier>, EmaConfig, GradientMean, NonFinite, StepTimes, Timing)>();
    let _ = size_of::<Transfer>();
    let _ = size_of::<(Asymmetric, ClassLoss, UncertaintyWeights, SamplesF1)>();
    let _ = size_of::<(Loaded<Classifier>, Snapshot<'_, Classifier>)>();
    let _ = (cross_entropy, soft_cross_entropy, soft_targets, focal, dice_cross_entropy);
    let _ = (binary_cross_entropy::<2>, mean_squared_error::<2>);
    let _ = recompute_batch_norms::<Classifier, String, 4>;
    let _ = train_step_accumulated::<Classifier, 4, Target>;
    let _ = size_of::<(LrPoint, LrRange, BatchSearch, BatchFound, Fit)>();
    let _ = (find_learning_rate::<Classifier, ImageCollate, 4>, suggest_learning_rate);
    let _ = size_of::<(Passes<'_, Classifier>, &dyn SegmentedPass<Classifier>, Skipped, StepAt)>();
    fn learns_from<const D: usize, B: TrainBatch<D>>() {}
    learns_from::<4, ImageBatch>();
    learns_from::<2, TensorBatch>();
    let _ = size_of::<Segments<'_, Classifier, burn::tensor::Tensor<4>>>();
}
