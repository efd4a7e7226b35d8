//! A quantized network on a GPU.

mod error;
mod model;
mod upload;

pub use error::DeviceError;
pub use model::DeviceInt8Network;
