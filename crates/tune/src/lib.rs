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
mod space;
mod state;
mod study;
mod table;
mod trial;
mod worker;

// What is searched, and for what.
pub use objective::{Direction, Objective};
pub use settings::{PrunerSettings, SamplerSettings, StudySettings};
pub use space::{Parameter, Point, Range, Space};

// The search.
pub use study::{Asked, Study, Trial, Verdict};
pub use trial::{TrialRecord, TrialState};

// What it found.
pub use front::{hypervolume, pareto_front};
pub use importance::importance;

// What goes wrong.
pub use error::TuneError;
