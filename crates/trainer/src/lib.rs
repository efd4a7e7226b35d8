#![doc = include_str!("../README.md")]

mod checkpoint;
mod error;
mod evaluate;
mod events;
mod optimizer;
mod recompute;
mod run;
mod schedule;
mod step;

// A run, and the settings it takes.
pub use optimizer::OptimizerConfig;
pub use run::{CheckpointSettings, Ending, Finished, Run, RunData, RunSettings};
pub use schedule::Schedule;
pub use step::{StepOutcome, StepSettings, train_step};

// What happens in it.
pub use events::{Control, EpochReport, Evaluation, Event, StepReport};

// A backward pass in less memory.
pub use recompute::{Activations, Backward, InputGradients, Segmented, Streams};

// Scoring a model.
pub use evaluate::evaluate;

// Checkpoints on disk.
pub use checkpoint::{
    CheckpointError, EpochSums, RunState, list as list_checkpoints, load as load_checkpoint,
    load_model, prune as prune_checkpoints, save as save_checkpoint,
};

// What goes wrong.
pub use error::TrainError;
