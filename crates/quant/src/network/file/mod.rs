//! A quantized model as the bytes of one file: version, length, hash, then every layer.

mod bytes;
mod error;
mod read;
mod write;

pub use error::FileError;

/// The first bytes of every file.
const MAGIC: [u8; 8] = *b"UPDRAFTQ";

/// The version that this code writes, and the only one that it reads.
const VERSION: u32 = 5;
