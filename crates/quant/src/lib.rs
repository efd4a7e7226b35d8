#![doc = include_str!("../README.md")]

mod clip;
mod kernels;
#[cfg(feature = "burn")]
mod module;
mod network;
mod observe;
mod operation;
mod scheme;
mod view;
mod weights;

// Networks in f32 and in int8.
pub use network::{
    Arithmetic, Calibrated, ExportError, FileError, ImportError, Observation, Plan, PlannedLayer,
    Quantization, QuantizeError, QuantizedModel, Reason, RoundedLayer, Rounding, Workspace,
};
pub use network::{Graph, GraphError, Port, Samples, Value};
pub use operation::{Binary, Function, OperationError, Unary, Window};

// Int8 networks on GPUs.
#[cfg(feature = "cube")]
pub use kernels::cube::DeviceReason;
#[cfg(feature = "cube")]
pub use network::{DeviceError, DeviceInt8Network};

// The kernels for GPUs, for programs that compile them without a card.
#[cfg(feature = "every-kernel")]
pub use kernels::every_kernel;

// The cost of int8.
pub use network::{
    Accuracy, Comparison, EvaluateError, Evaluation, LayerComparison, LayerEvaluation, Score,
    SquaredError,
};

// The faster arithmetic of each layer.
pub use network::{LayerSpeed, SpeedPlan, SpeedTable};

// The bits of each layer.
pub use network::{
    Assignment, BudgetError, ChoiceSensitivity, LayerSensitivity, Sensitivity, SensitivityError,
};

// Capturing burn's modules.
#[cfg(feature = "burn")]
pub use module::{CaptureError, Place, Shapes, Tensors};

// Calibration.
pub use observe::{Calibration, ObserveError};

// Quantization schemes.
pub use scheme::{ActivationScheme, OutputScheme, SchemeError};
pub use weights::{FormatError, QuantizedWeights, WeightError, WeightFormat};

/// The kernels on slices.
pub mod slices {
    // A fully connected layer with packed weights, and what goes into it.
    pub use crate::kernels::{QuantizedLinear, quantize};

    // A fully connected layer in f32 with weights of four bits.
    pub use crate::kernels::{FourBitError, FourBitLinear};

    // Pooling and resizing.
    pub use crate::kernels::{Pooling, Resizing};

    // Instruction sets and scratch memory.
    pub use crate::kernels::{Isa, Scratch};

    // The scalar references, for tests and benchmarks.
    #[cfg(feature = "reference")]
    pub use crate::kernels::reference;
}
