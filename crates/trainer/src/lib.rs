#![doc = include_str!("../README.md")]

mod accumulate;
mod batch_numbers;
mod batch_pass;
mod batch_size;
mod benchmark;
mod bits;
mod bn_recompute;
mod buffers;
mod captured;
mod checkpoint;
mod comparison;
mod converted;
mod criterion;
mod decisions;
mod device_read;
mod early_stop;
mod ema;
mod ending;
mod epoch;
mod error;
mod evaluate;
mod evaluation_pass;
mod events;
mod freeze;
mod given_gradient;
mod gradients;
mod guard;
mod lookahead;
mod loss;
mod lr_find;
mod metric;
mod monitor;
mod optimizer;
mod own_loop;
mod paths;
mod plateau;
mod quantile;
mod ranks;
mod read_interval;
mod recompute;
mod rehearse;
mod reporting;
mod run;
mod schedule;
mod seed;
mod segments;
mod settings;
mod step;
mod stream;
mod task;
mod tensors;
mod transfer;
mod unread;
mod update_numbers;

// Tasks and data.
pub use converted::Converted;
pub use stream::{BatchStream, Counted, EpochPart, EpochStream, StreamError, with_graph};
pub use task::{Losses, Mode, StepContext, Task, metric_specs};
pub use tensors::{TensorMap, Tensors};

// Runs and their settings.
pub use criterion::{Criterion, CriterionError, Split};
pub use early_stop::EarlyStop;
pub use optimizer::OptimizerConfig;
pub use plateau::Plateau;
pub use ranks::{GatherNumbers, Ranks, Synchronize, count_statistics};
pub use read_interval::ReadEachReason;
pub use run::{Ending, Finished, Run, RunData};
pub use schedule::Schedule;
pub use settings::{BatchNormStatistics, CheckpointSettings, RunSettings};
pub use transfer::Transfer;

// One update.
pub use freeze::Freeze;
pub use guard::{NonFinite, Skipped, non_finite_parameter};
pub use step::{
    Placed, StepAt, StepOutcome, StepSettings, train_step, train_step_accumulated,
    train_step_on_ranks,
};

// Gradients without an update.
pub use gradients::{BatchGradients, batch_gradients};

// Losses.
pub use loss::{
    Asymmetric, GradientNormWeights, MaskActivation, UncertaintyWeights, balanced_weights,
    binary_cross_entropy, cross_entropy, dice_cross_entropy, dice_loss, effective_number_weights,
    focal, huber, mask_cross_entropy, mean_absolute_error, mean_squared_error, ordinal_classes,
    ordinal_cross_entropy, quantile_loss, soft_cross_entropy, soft_targets, ssim_loss,
    tversky_loss, weighted_cross_entropy, weighted_focal,
};

// Metrics.
pub use metric::{
    BoundaryDistances, Calibration, ClassCounts, ClassScores, Confusion, Deviations, Direction,
    Evaluation, ImageScores, LabelScores, LossSums, MaskScores, Metric, MetricSpec, Ranking,
    SamplesF1, Score, Sum, Unit, boundary_distances,
};

// Searches for batch size and learning rate.
pub use batch_size::{BatchFound, BatchSearch, Fit};
pub use lr_find::{LrPoint, LrRange, find_learning_rate, suggest_learning_rate};
pub use rehearse::rehearse;

// Improved models: averages, slow weights and recomputed statistics.
pub use bn_recompute::{keeps_statistics, recompute_batch_norms, switched_off_layers};
pub use ema::{Ema, EmaConfig};
pub use lookahead::Lookahead;

// Events and timing.
pub use events::{Activity, Control, EpochReport, Event, StepReport};
pub use monitor::{RankTimes, StepTimes, Timing};
pub use transfer::Upload;

// Forward passes that are recorded and replayed.
pub use captured::{
    CaptureReport, CaptureSettings, CapturedCallError, CapturedForward, CapturedModel, NotCaptured,
    TensorForm,
};

// Loops and models of your own, measured.
pub use benchmark::{Benchmark, BenchmarkSettings, benchmark};
pub use own_loop::{Bottleneck, LoopMonitor, LoopReport, Phase, Verdict};

// Recomputation.
pub use recompute::{Activations, Backward, InputGradients, SegmentValues, Segmented};
pub use segments::{SegmentedPass, Segments};

// Scoring a model.
pub use evaluate::{Evaluated, evaluate, evaluate_captured};
pub use evaluation_pass::{EvaluatedBatch, EvaluationPass};
pub use ranks::evaluate_on_ranks;

// Checkpoints on disk.
pub use checkpoint::{
    CheckpointError, Keep, Loaded, RunState, Snapshot, best as best_checkpoint,
    check as check_checkpoint, check_served as check_served_model, contents as checkpoint_contents,
    export_hash, list as list_checkpoints, load as load_checkpoint, load_model, load_part,
    prune as prune_checkpoints, remove_remains, save as save_checkpoint,
    set_aside as set_aside_checkpoints, step as checkpoint_step,
};

// Errors.
pub use error::TrainError;
