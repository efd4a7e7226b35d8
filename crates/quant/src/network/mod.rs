//! A trained network as a graph of layers, and the same in int8.

mod assignment;
mod buffers;
mod calibration;
#[cfg(feature = "cube")]
mod cube;
mod ends;
mod equalization;
mod error;
mod evaluation;
mod exact;
mod file;
mod float;
mod fuse;
mod graph;
mod import;
mod knapsack;
mod layer;
mod model;
mod observation;
mod onnx;
mod plan;
mod protobuf;
mod quantization;
mod report;
mod rounding;
mod samples;
mod score;
mod sensitivity;
mod speed;
mod workspace;

pub use assignment::{Assignment, BudgetError};
#[cfg(feature = "cube")]
pub use cube::{DeviceError, DeviceInt8Network};
pub use error::QuantizeError;
pub use evaluation::{EvaluateError, Evaluation, LayerEvaluation};
pub(crate) use exact::Exact;
pub use file::FileError;
pub(crate) use graph::Layer;
pub use graph::{Graph, GraphError, Port, Value};
pub use import::ImportError;
pub use model::QuantizedModel;
pub use observation::Observation;
pub use onnx::ExportError;
pub(crate) use onnx::Node;
pub use plan::{Arithmetic, Plan, PlannedLayer, Reason};
pub(crate) use protobuf::Attribute;
pub use quantization::{Calibrated, Quantization};
pub use report::{Comparison, LayerComparison};
pub use rounding::{RoundedLayer, Rounding};
pub use samples::Samples;
pub use score::{Accuracy, Score, SquaredError};
pub use sensitivity::{ChoiceSensitivity, LayerSensitivity, Sensitivity, SensitivityError};
pub use speed::{LayerSpeed, SpeedPlan, SpeedTable};
pub use workspace::Workspace;
