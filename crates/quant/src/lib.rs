#![doc = include_str!("../README.md")]

mod kernels;
#[cfg(feature = "burn")]
mod module;
mod network;
mod observe;
mod operation;
mod scheme;
mod weights;

// A network in f32, and the same in eight bits.
pub use network::{
    Arithmetic, Calibrated, FileError, Plan, PlannedLayer, Quantization, QuantizeError,
    QuantizedModel, Reason, Workspace,
};
pub use network::{Graph, GraphError, Port, Samples, Value};
pub use operation::{Binary, Function, OperationError, Unary, Window};

// What eight bits cost.
pub use network::{
    Accuracy, Comparison, EvaluateError, Evaluation, LayerComparison, LayerEvaluation, Score,
    SquaredError,
};

// Networks out of burn's modules.
#[cfg(feature = "burn")]
pub use module::{CaptureError, Place, Shapes, Tensors};

// What is seen of activations, and the scheme that suits it.
pub use observe::{Calibration, ObserveError};

// How numbers become eight bits.
pub use scheme::{ActivationScheme, OutputScheme, SchemeError};
pub use weights::{QuantizedWeights, WeightError};

/// The kernels on slices.
pub mod slices {
    // A fully connected layer with packed weights, and what goes into it.
    pub use crate::kernels::{QuantizedLinear, quantize};

    // What becomes of windows and of pixels.
    pub use crate::kernels::{Pooling, Resizing};

    // Which instructions, and the memory they work in.
    pub use crate::kernels::{Isa, Scratch};

    // The same one number after the other, for benchmarks and doubters.
    #[cfg(feature = "reference")]
    pub use crate::kernels::reference;
}
