#![doc = include_str!("../README.md")]

mod difference;
mod error;
mod event;
mod front;
mod importance;
mod journal;
mod json;
mod objective;
mod pruner;
mod random;
mod sampler;
mod settings;
mod shortened;
mod space;
mod state;
mod study;
mod table;
mod trial;
mod worker;

// Space and settings.
pub use objective::{Direction, Objective};
pub use settings::{PrunerSettings, SamplerSettings, StudySettings};
pub use space::{Parameter, Point, Range, Space};

// Study and trials.
pub use study::{Asked, PruneDecision, Study, Trial};
pub use trial::{TrialRecord, TrialState};

// Analysis of the results.
pub use front::{hypervolume, pareto_front};
pub use importance::importance;

// Errors.
pub use error::TuneError;
