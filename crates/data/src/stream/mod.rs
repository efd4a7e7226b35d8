//! Batches of a set of samples, epoch by epoch.

mod ahead;
mod assemble;
mod collate;
mod config;
mod epoch;
mod first;
mod image_config;
mod images;
mod loader;
mod plan;
mod prefetch;
mod sample_config;
mod samples;
mod state;

pub use ahead::Ahead;
pub use collate::{Collate, Draw};
pub use config::{LastBatch, Order, StreamConfig, Workers};
pub use epoch::{Epoch, Waits};
pub use image_config::LoaderConfig;
pub use images::ImageCollate;
pub use loader::Loader;
pub use sample_config::SampleConfig;
pub use samples::SampleCollate;
pub use state::LoaderState;

pub(crate) use plan::StreamPlan;
