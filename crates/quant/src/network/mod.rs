//! A trained network as a graph of layers, and the same in eight bits.

mod calibration;
mod elementwise;
mod evaluation;
mod file;
mod float;
mod function;
mod fuse;
mod graph;
mod layer;
mod model;
mod onnx;
mod plan;
mod protobuf;
mod quantization;
mod report;
mod slots;
mod table;

pub use evaluation::{EvaluateError, Evaluation, LayerEvaluation};
pub use file::FileError;
pub use function::{Binary, Function, Unary};
pub use graph::{Graph, GraphError, Value, Window};
pub use model::{QuantizeError, QuantizedModel, Workspace};
pub use plan::{Arithmetic, Plan, PlannedLayer, Reason};
pub use quantization::{Calibrated, Quantization};
pub use report::{Comparison, LayerComparison};
