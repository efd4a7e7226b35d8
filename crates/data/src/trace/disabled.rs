//! No-ops, without the feature `tracing`.

use std::path::Path;
use std::time::Duration;

use crate::cache::CacheUse;

pub(crate) fn inflated(_path: &Path, _bytes: usize) {}

pub(crate) fn cache(_path: &Path, _used: &CacheUse) {}

pub(crate) fn decoded(_samples: usize, _bytes: usize) {}

pub(crate) fn workers(_workers: usize, _item: Duration) {}

pub(crate) fn fewer_workers(_wanted: usize, _started: usize) {}
