//! Errors of importing an ONNX file.

use crate::network::graph::GraphError;
use crate::scheme::SchemeError;
use crate::weights::WeightError;

/// The operations that an error lists.
pub(super) const SUPPORTED: &str = "\
     Abs, Add, AveragePool, BatchNormalization, Cast, Clip, Concat, Constant, Conv, \
     ConvTranspose, DepthToSpace, DequantizeLinear, Div, Dropout, Elu, Erf, Exp, Expand, \
     Flatten, Gather, Gelu, Gemm, GlobalAveragePool, GlobalMaxPool, Greater, HardSigmoid, \
     HardSwish, Identity, LayerNormalization, LeakyRelu, Log, MatMul, Max, MaxPool, Min, Mul, \
     Neg, Pad, Pow, QuantizeLinear, Reciprocal, ReduceMean, Relu, Reshape, Resize, Round, Shape, \
     Sigmoid, Slice, Softmax, Softplus, Split, Sqrt, Squeeze, Sub, Tanh, Transpose, Unsqueeze and \
     Where; of constants and shapes also Ceil, ConstantOfShape, Equal, Floor and Mod";

/// Errors of importing an ONNX file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The bytes are no ONNX file, or only a part of one.
    #[error("the bytes are not an ONNX file: {what}; it may be truncated or of another format")]
    Format {
        /// What is wrong.
        what: &'static str,
    },
    /// The operator set is too old, or there is none.
    #[error(
        "the file uses version {version} of ONNX's operators; it must be 13 or later, such as by \
         `opset_version` of `torch.onnx.export`"
    )]
    Version {
        /// The version; 0 if the file has none.
        version: u64,
    },
    /// The file has more nodes or tensors than is supported, or its tensors are too large.
    #[error("the file is too large: it has {what}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
    },
    /// The numbers of a tensor are in another file.
    #[error(
        "the numbers of tensor `{tensor}` are in another file (external data); save the model as \
         one file, with `onnx.save(model, path, save_as_external_data=False)`"
    )]
    ExternalData {
        /// The tensor.
        tensor: String,
    },
    /// A tensor has another number of bytes or numbers than its shape.
    #[error("tensor `{tensor}` has {got} bytes of numbers, but its shape has {expected}")]
    Length {
        /// The tensor.
        tensor: String,
        /// The bytes of its shape.
        expected: usize,
        /// The bytes that there are.
        got: usize,
    },
    /// A tensor of another type.
    #[error("tensor `{tensor}` has element type {got} of ONNX; expected {expected}")]
    Element {
        /// The tensor.
        tensor: String,
        /// The number of its type in ONNX.
        got: u64,
        /// What is supported.
        expected: &'static str,
    },
    /// An input whose shape is not known.
    #[error(
        "input `{input}` has the shape {shape}; all lengths but that of the first axis, the batch, \
         must be known"
    )]
    Shape {
        /// The input.
        input: String,
        /// Its shape, with names of unknown lengths.
        shape: String,
    },
    /// A node reads a value that no node before it computes.
    #[error("{operation} `{node}` reads `{name}`, which no input, constant or earlier node is")]
    Missing {
        /// The operation.
        operation: String,
        /// The node.
        node: String,
        /// The value.
        name: String,
    },
    /// An operation that has no equivalent.
    #[error("node `{node}` is {operation}, which is not supported; supported are {SUPPORTED}")]
    Operation {
        /// The operation, with its domain if it is not ONNX's.
        operation: String,
        /// The node.
        node: String,
    },
    /// A supported operation with inputs or settings that are not.
    #[error("{operation} `{node}` cannot be imported: {reason}")]
    Unsupported {
        /// The operation.
        operation: String,
        /// The node.
        node: String,
        /// Why, and what is supported.
        reason: &'static str,
    },
    /// No tensor of the file has codes.
    #[error(
        "the file has no QuantizeLinear of a tensor that depends on the input: it is in f32; \
         quantize it with `onnxruntime.quantization.quantize_static` and \
         `quant_format=QuantFormat.QDQ`"
    )]
    NotQuantized,
    /// Every output is an input.
    #[error(
        "no layer of the file computes an output from an input: it has a QuantizeLinear and no \
         layer behind it that an output depends on"
    )]
    NoLayer,
    /// A scale of a tensor.
    #[error("{operation} `{node}`: {cause}")]
    Scheme {
        /// The operation.
        operation: String,
        /// The node.
        node: String,
        /// What is wrong.
        cause: SchemeError,
    },
    /// The layer does not fit its inputs, or its parameters are not finite.
    #[error("{cause}")]
    Graph {
        /// What is wrong.
        cause: GraphError,
    },
    /// The integer weights of a layer.
    #[error("the weights of layer `{layer}` cannot be used: {cause}")]
    Weights {
        /// The layer.
        layer: String,
        /// What is wrong.
        cause: WeightError,
    },
    /// The scale of a summand.
    #[error("the summands of layer `{layer}` cannot be added: {cause}")]
    Summand {
        /// The layer.
        layer: String,
        /// What is wrong.
        cause: SchemeError,
    },
}

/// A result of importing.
pub(super) type Read<T> = Result<T, ImportError>;
