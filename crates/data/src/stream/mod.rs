//! Batches of a set of samples, epoch by epoch.

mod ahead;
mod assemble;
mod batch_config;
mod collate;
mod config;
mod epoch;
mod first;
mod images;
mod loader;
mod plan;
mod prefetch;
mod samples;
mod state;

pub use ahead::Ahead;
pub use batch_config::{BatchConfig, ImageFinish, LoaderConfig, RasterFinish, SampleConfig};
pub use collate::{Collate, Draw};
pub use config::{LastBatch, Order, Part, StreamConfig, Workers};
pub use epoch::{Epoch, Waits};
pub use images::ImageCollate;
pub use loader::Loader;
pub use samples::SampleCollate;
pub use state::LoaderState;

pub(crate) use plan::StreamPlan;
