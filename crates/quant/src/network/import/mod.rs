//! From an ONNX file that another program has quantized to a model.

mod assemble;
mod attributes;
mod constant;
mod convolution;
mod cutting;
mod elementwise;
mod error;
mod file;
mod folding;
mod functions;
mod importer;
mod joining;
mod layout;
mod message;
mod normalization;
mod padding;
mod pooling;
mod product;
mod quantized;
mod real;
mod resizing;
mod rounding;
mod shapes;
mod sides;
mod transposed;
mod weights;
mod window;
mod wire;

pub use error::ImportError;
