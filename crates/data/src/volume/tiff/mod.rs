//! TIFF, `BigTIFF` and OME-TIFF: pages, strips and tiles as volumes.

mod claims;
mod directory;
mod first_directory;
mod page;
mod read;
mod software;
mod write;

pub use read::TiffVolume;
pub use software::tiff_software;
pub use write::{TiffCompression, TiffWriteConfig, VolumeWriter, write_volume};

pub(crate) use write::StripPlace;
