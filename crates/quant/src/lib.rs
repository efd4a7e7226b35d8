#![doc = include_str!("../README.md")]

mod kernels;
#[cfg(feature = "burn")]
mod module;
mod network;
mod observe;
mod scheme;
mod weights;

// A network in f32, and the same in eight bits.
pub use network::{
    Arithmetic, Calibrated, EvaluateError, Evaluation, LayerEvaluation, Plan, PlannedLayer,
    Quantization, QuantizeError, QuantizedModel, Reason, Workspace,
};
pub use network::{
    Binary, Comparison, FileError, Function, Graph, GraphError, LayerComparison, Unary, Value,
    Window,
};

// Networks out of burn's modules.
#[cfg(feature = "burn")]
pub use module::{CaptureError, Place};

// What is seen of activations, and the scheme that suits it.
pub use observe::{Calibration, ObserveError, Observer};

// How numbers become eight bits.
pub use scheme::{ActivationScheme, OutputScheme, SchemeError};
pub use weights::{QuantizedWeights, WeightError};

/// The kernels on slices.
pub mod slices {
    // Layers with packed weights.
    pub use crate::kernels::{
        Addend, Pooling, QuantizedAdd, QuantizedConvolution, QuantizedLinear, QuantizedPooling,
    };

    // Into eight bits and back.
    pub use crate::kernels::{dequantize, quantize, quantize_images};

    // Which instructions, and the memory they work in.
    pub use crate::kernels::{Isa, Scratch};

    // The same one number after the other, for benchmarks and doubters.
    #[cfg(feature = "reference")]
    pub use crate::kernels::reference;
}
