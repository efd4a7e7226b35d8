//! Networks out of burn's modules, and models run on burn's tensors.

mod arithmetic;
mod constant;
mod error;
mod layers;
mod reader;
mod record;
mod tensor;

pub use error::{CaptureError, Place};
