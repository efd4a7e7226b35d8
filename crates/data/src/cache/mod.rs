//! Caches: in memory, or in a file that is verified before use.

mod atomic_file;
mod cache_file;
mod file_images;
mod file_samples;
mod memory;
mod usage;

pub use file_images::FileImages;
pub use file_samples::FileSamples;
pub use memory::{CachedImages, CachedSamples};
pub use usage::CacheUse;

pub(crate) use atomic_file::AtomicFile;
