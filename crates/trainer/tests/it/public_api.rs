//! Every name this crate promises: removing one breaks this file, not a user.

use burn::tensor::{Bool, Int, Tensor};
use updraft_data::{ImageBatch, InMemoryTensors, Loader, ResidentBatch, ResidentSet, TensorBatch};
use updraft_trainer::{
    Activations, Activity, Asymmetric, Backward, BatchFound, BatchNormStatistics, BatchSearch,
    BatchStream, CheckpointError, CheckpointSettings, ClassCounts, Control, Criterion,
    CriterionError, Deviations, Direction, EarlyStop, Ema, EmaConfig, Ending, EpochReport,
    EpochStream, Evaluated, Evaluation, Event, Finished, Fit, GradientMean, InputGradients, Keep,
    Loaded, LossSums, Losses, LrPoint, LrRange, Metric, MetricSpec, Mode, NonFinite,
    OptimizerConfig, Placed, Plateau, Run, RunData, RunSettings, RunState, SamplesF1, Schedule,
    Score, Segmented, SegmentedPass, Segments, Skipped, Snapshot, Split, StepAt, StepContext,
    StepOutcome, StepReport, StepSettings, StepTimes, StreamError, Streams, Sum, Task, Tensors,
    Timing, TrainError, Transfer, UncertaintyWeights, Unit, best_checkpoint, binary_cross_entropy,
    check_checkpoint, cross_entropy, dice_cross_entropy, evaluate, find_learning_rate, focal,
    list_checkpoints, load_checkpoint, load_model, mean_squared_error, metric_specs,
    prune_checkpoints, recompute_batch_norms, rehearse, save_checkpoint, soft_cross_entropy,
    soft_targets, suggest_learning_rate, train_step, train_step_accumulated,
};

use crate::small::{Classifier, Classify};

type Trained = Classify<'static, Classifier>;

#[test]
fn the_promised_names_are_there() {
    let _ = size_of::<(Run<Classifier>, Finished<Classifier>, RunData<'_, ImageBatch>)>();
    let _ = size_of::<(RunSettings, CheckpointSettings, StepSettings, Schedule, OptimizerConfig)>();
    let _ = size_of::<(StepOutcome<ClassCounts>, Placed<(), ()>, StepAt, Skipped)>();
    let _ = size_of::<(Event, StepReport, EpochReport, Control, Ending)>();
    let _ = size_of::<(RunState, LossSums, CheckpointError, TrainError, StreamError)>();
    let _ = size_of::<(Evaluation, Evaluated<()>, Metric, MetricSpec, Unit, Direction)>();
    let _ = size_of::<(Losses, StepContext, Mode, Criterion, CriterionError, Split)>();
    let _ = size_of::<(Activity, BatchNormStatistics, EarlyStop, Plateau, Keep, Transfer)>();
    let _ = size_of::<(Ema<Classifier>, EmaConfig, GradientMean, NonFinite, StepTimes, Timing)>();
    let _ = size_of::<(Asymmetric, UncertaintyWeights, Sum)>();
    let _ = size_of::<(Loaded<Classifier>, Snapshot<'_, Classifier>)>();
    let _ = size_of::<(LrPoint, LrRange, BatchSearch, BatchFound, Fit)>();
    let _ = size_of::<(Activations, InputGradients, Backward<()>)>();
    let _ = size_of::<Segmented<'_, Classifier, Tensor<4>, ()>>();
    let _ = size_of::<Segments<'_, Classifier, Tensor<4>, Tensor<4>, Tensor<2>>>();
    let _ = size_of::<&dyn SegmentedPass<Classifier, Tensor<4>, Tensor<2>>>();
    let _ = evaluate::<Classifier, Trained>;
    let _ = (train_step::<Classifier, Trained>, train_step_accumulated::<Classifier, Trained>);
    let _ = (rehearse::<Classifier, Trained>, metric_specs::<Classifier, Trained>);
    let _ = (find_learning_rate::<Classifier, Trained>, suggest_learning_rate);
    let _ = recompute_batch_norms::<Classifier, Tensor<4>, String>;
    let _ =
        (load_checkpoint::<Classifier>, load_model::<Classifier>, save_checkpoint::<Classifier>);
    let _ = (list_checkpoints, prune_checkpoints, best_checkpoint, check_checkpoint);
    let _ = (cross_entropy, soft_cross_entropy, soft_targets, focal, dice_cross_entropy);
    let _ = (binary_cross_entropy::<2>, mean_squared_error::<2>);
}

#[test]
fn the_promised_types_have_the_promised_traits() {
    fn is_stream<B, S: BatchStream<B>>() {}
    is_stream::<ImageBatch, Loader>();
    is_stream::<TensorBatch, Loader<InMemoryTensors>>();
    is_stream::<ResidentBatch<2>, ResidentSet<2>>();
    let _ = size_of::<Box<dyn EpochStream<ImageBatch>>>();
    fn is_task<T: Task<Classifier, Batch = ImageBatch>>() {}
    is_task::<Trained>();
    fn is_score<S: Score>() {}
    is_score::<()>();
    is_score::<ClassCounts>();
    is_score::<Deviations>();
    is_score::<SamplesF1>();
    fn are_tensors<T: Tensors>() {}
    are_tensors::<(Tensor<4>, Option<Tensor<1, Int>>, Vec<Tensor<3, Bool>>, ())>();
    fn are_streams<S: Streams>() {}
    are_streams::<(Tensor<4>, Option<Tensor<2>>)>();
}
