//! A trained network as a graph of layers, and the same in eight bits.

mod file;
mod float;
mod fuse;
mod graph;
mod layer;
mod model;
mod onnx;
mod protobuf;
mod report;

pub use file::FileError;
pub use graph::{Graph, GraphError, Value, Window};
pub use model::{QuantizeError, QuantizedModel, Workspace};
pub use report::{Comparison, LayerComparison};
