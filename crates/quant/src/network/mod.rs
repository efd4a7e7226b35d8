//! A trained network as a graph of layers, and the same in int8.

mod buffers;
mod calibration;
mod error;
mod evaluation;
mod exact;
mod file;
mod float;
mod fuse;
mod graph;
mod layer;
mod model;
mod onnx;
mod plan;
mod protobuf;
mod quantization;
mod report;
mod samples;
mod score;
mod workspace;

pub use error::QuantizeError;
pub use evaluation::{EvaluateError, Evaluation, LayerEvaluation};
pub(crate) use exact::Exact;
pub use file::FileError;
pub(crate) use graph::Layer;
pub use graph::{Graph, GraphError, Port, Value};
pub use model::QuantizedModel;
pub(crate) use onnx::Node;
pub use plan::{Arithmetic, Plan, PlannedLayer, Reason};
pub(crate) use protobuf::Attribute;
pub use quantization::{Calibrated, Quantization};
pub use report::{Comparison, LayerComparison};
pub use samples::Samples;
pub use score::{Accuracy, Score, SquaredError};
pub use workspace::Workspace;
