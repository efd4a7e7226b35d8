//! The events, with the feature `tracing`.

use std::path::Path;
use std::time::Duration;

use crate::cache::CacheUse;

pub(crate) fn inflated(path: &Path, bytes: usize) {
    tracing::info!(path = %path.display(), bytes, "archive inflated");
}

pub(crate) fn cache(path: &Path, used: &CacheUse) {
    match used {
        CacheUse::Rebuilt { reason } => {
            tracing::warn!(path = %path.display(), reason, "outdated or damaged cache: building it again");
        }
        used => tracing::info!(path = %path.display(), ?used, "cache"),
    }
}

pub(crate) fn decoded(samples: usize, bytes: usize) {
    tracing::info!(samples, bytes, "images decoded into memory");
}

pub(crate) fn workers(workers: usize, item: Duration) {
    tracing::info!(workers, item_us = item.as_secs_f64() * 1e6, "loader ready");
}

pub(crate) fn fewer_workers(wanted: usize, started: usize) {
    tracing::warn!(wanted, started, "the system refused worker threads; the stream is the same");
}
