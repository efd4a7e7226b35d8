//! Errors.

mod data;
mod decode;
mod format;
mod message;
mod place;
mod volume;

pub use data::DataError;
pub use decode::DecodeError;
pub use format::FormatError;
pub use place::Place;
pub use volume::VolumeError;
