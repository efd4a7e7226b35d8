//! What is seen of a tensor over many batches, and the range that follows from it.

mod histogram;
mod observer;
mod range;

pub(crate) use observer::Observer;
pub use observer::{Calibration, ObserveError};
