#![doc = include_str!("../README.md")]

mod accumulate;
mod batch_size;
mod bn_recompute;
mod buffers;
mod checkpoint;
mod criterion;
mod early_stop;
mod ema;
mod epoch;
mod error;
mod evaluate;
mod events;
mod guard;
mod loss;
mod lr_find;
mod metric;
mod monitor;
mod optimizer;
mod passes;
mod plateau;
mod recompute;
mod run;
mod schedule;
mod settings;
mod step;
mod target;

// A run, and the settings it takes.
pub use criterion::Criterion;
pub use early_stop::EarlyStop;
pub use optimizer::OptimizerConfig;
pub use plateau::Plateau;
pub use run::{Ending, Finished, Run, RunData};
pub use schedule::Schedule;
pub use settings::{BatchNormStatistics, CheckpointSettings, RunSettings, Transfer};
pub use target::{MixedClasses, Target, TrainBatch};

// One update.
pub use accumulate::GradientMean;
pub use guard::{NonFinite, Skipped};
pub use step::{StepAt, StepOutcome, StepSettings, train_step, train_step_accumulated};

// Losses and metrics.
pub use loss::{
    Asymmetric, ClassLoss, UncertaintyWeights, binary_cross_entropy, cross_entropy,
    dice_cross_entropy, focal, mean_squared_error, soft_cross_entropy, soft_targets,
};
pub use metric::SamplesF1;

// Which batch size and which learning rate to train with.
pub use batch_size::{BatchFound, BatchSearch, Fit};
pub use lr_find::{LrPoint, LrRange, find_learning_rate, suggest_learning_rate};

// Models that are better than the last update left them.
pub use bn_recompute::recompute_batch_norms;
pub use ema::{Ema, EmaConfig};

// What happens in a run, and where its time goes.
pub use events::{Activity, Control, EpochReport, Evaluation, Event, StepReport};
pub use monitor::{StepTimes, Timing};

// A backward pass in less memory.
pub use passes::{Passes, SegmentedPass, Segments};
pub use recompute::{Activations, Backward, InputGradients, Segmented, Streams};

// Scoring a model.
pub use evaluate::evaluate;

// Checkpoints on disk.
pub use checkpoint::{
    CheckpointError, EpochSums, Keep, Loaded, RunState, Snapshot, best as best_checkpoint,
    check as check_checkpoint, list as list_checkpoints, load as load_checkpoint, load_model,
    prune as prune_checkpoints, save as save_checkpoint,
};

// What goes wrong.
pub use error::TrainError;
