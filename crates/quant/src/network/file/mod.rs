//! A quantized model as the bytes of one safetensors file: a typed header, and the parameters.

mod error;
mod header;
mod read;
mod write;

pub use error::FileError;

/// The key of the header in the file's metadata.
const KEY: &str = "updraft-quant";

/// The version that this code writes, and the only one that it reads.
const VERSION: u32 = 13;

/// The tensor with the hash of everything else.
const HASH: &str = "sha256";
