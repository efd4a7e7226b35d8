//! What goes wrong with data.

mod data;
mod decode;
mod format;
mod place;

pub use data::DataError;
pub use decode::DecodeError;
pub use format::FormatError;
pub use place::Place;
