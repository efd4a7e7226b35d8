//! What is prepared once and kept: in memory, or in a file that is checked before it is used.

mod usage;
mod whole_file;

pub use usage::CacheUse;

pub(crate) use whole_file::WholeFile;
