//! TIFF, `BigTIFF` and OME-TIFF: pages, strips and tiles as volumes.

mod claims;
mod directory;
mod page;
mod read;
mod write;

pub use read::TiffVolume;
pub use write::{TiffCompression, TiffWriteConfig, VolumeWriter, write_volume};

pub(crate) use write::StripPlace;
