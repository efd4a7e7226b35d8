//! Capturing burn's modules, and models on burn's tensors.

mod arithmetic;
mod attention;
mod axes;
mod constant;
#[cfg(feature = "cube")]
mod cube;
mod error;
mod in_burn;
mod norm;
mod reader;
mod record;
mod reduction;
mod tensors;

#[cfg(all(test, feature = "cube"))]
pub(crate) use cube::client_of;
pub use error::{CaptureError, Place};
pub(crate) use reader::{Meaning, Reader};
pub use tensors::{Shapes, Tensors};
