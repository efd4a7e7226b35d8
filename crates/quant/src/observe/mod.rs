//! Observation of a tensor over many batches, and the range that follows.

mod histogram;
mod observer;
mod range;

pub(crate) use observer::Observer;
pub use observer::{Calibration, ObserveError};
