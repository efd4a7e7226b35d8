//! The records of a run, one format per file.
//!
//! `metrics.jsonl` is the source of all others: a resumed run truncates it to its checkpoint and
//! rewrites the others from it. `run.json` lists the metrics once.

mod event_file;
mod metrics;
mod schema;
mod table;
mod trace;

pub(crate) use metrics::{METRICS, Metrics};
pub use metrics::{RecordedMetrics, read_metrics};
pub use schema::RunSchema;
pub(crate) use trace::{Trace, TracedStep};
