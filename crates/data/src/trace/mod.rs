//! Events for a `tracing` subscriber, with the feature.

#[cfg(not(feature = "tracing"))]
mod disabled;
#[cfg(feature = "tracing")]
mod enabled;

#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::{cache, decoded, fewer_workers, inflated, workers};
#[cfg(feature = "tracing")]
pub(crate) use enabled::{cache, decoded, fewer_workers, inflated, workers};
