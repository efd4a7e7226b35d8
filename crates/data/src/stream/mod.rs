//! Batches of a source, epoch by epoch.

mod assemble;
mod config;
mod epoch;
mod loader;
mod prefetch;
mod state;

pub use config::{LastBatch, LoaderConfig, Order, Workers};
pub use epoch::Epoch;
pub use loader::Loader;
pub use state::LoaderState;
