//! What a run writes down about itself, one kind of file a file.
//!
//! `metrics.jsonl` is the source of all others: a resumed run cuts it back to its checkpoint and
//! makes the others anew from what is left. `run.json` lists the metrics once.

mod event_file;
mod metrics;
mod schema;
mod table;
mod trace;

pub(crate) use metrics::Metrics;
pub use metrics::{RecordedMetrics, read_metrics};
pub use schema::RunSchema;
