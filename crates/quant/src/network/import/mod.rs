//! From an ONNX file that another program has quantized to a model.

mod assemble;
mod attributes;
mod constant;
mod convolution;
mod elementwise;
mod error;
mod file;
mod functions;
mod importer;
mod message;
mod pooling;
mod product;
mod quantized;
mod resizing;
mod rounding;
mod shapes;
mod transposed;
mod weights;
mod window;
mod wire;

pub use error::ImportError;
