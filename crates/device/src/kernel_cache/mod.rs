//! The file in which burn's runtimes keep measured and compiled kernels.

mod contents;
#[cfg(feature = "persistence")]
mod database;
#[cfg(not(feature = "persistence"))]
mod no_database;
mod origin;
mod own;

#[cfg(not(feature = "persistence"))]
use no_database as database;

pub use contents::{CacheContents, kernel_cache_contents};
pub use origin::{KernelOrigin, OriginDifference};
pub use own::{OwnKernelCache, StoredChoices};
