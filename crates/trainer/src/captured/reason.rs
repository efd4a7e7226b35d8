//! Why a forward pass is not replayed, and errors of its calls.

use burn::tensor::DType;

/// Why the calls of a [`CapturedModel`](crate::CapturedModel) are plain ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCaptured {
    /// The input has no tensor, so there is no device to capture on.
    #[error("the input has no tensor")]
    NoInput,
    /// The output has no tensor, so there is nothing to replay.
    #[error("the output has no tensor")]
    NoOutput,
    /// The input is on a device with autodiff, for which burn records nothing.
    #[error("burn captures no operations of a device with autodiff")]
    Autodiff,
    /// A tensor of the input or of the output is quantized; burn cannot write over it.
    #[error("a tensor is quantized")]
    Quantized,
    /// The device offers no graphs.
    #[error("burn offers no graphs on {device}: {cause}")]
    NotOffered {
        /// burn's own description of the device.
        device: String,
        /// What burn reported.
        cause: String,
    },
    /// The device refused the recording, for example because the forward pass reads a tensor.
    #[error("the device refused to record the forward pass: {cause}")]
    Refused {
        /// What burn reported.
        cause: String,
    },
    /// The forward pass panicked while it was recorded; it had not before.
    #[error("the forward pass panicked while it was recorded: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// The memory of the recorded input is shared, so that it cannot be written in place: the
    /// forward pass keeps or returns its input.
    #[error("the forward pass keeps or returns its input")]
    SharedInput,
    /// A replay did not return the bits of a plain call with the same input.
    #[error("the replay of call {call} differs from a plain call")]
    Differs {
        /// The number of the call, from 1.
        call: u64,
    },
    /// A replay failed.
    #[error("a replay failed: {cause}")]
    Failed {
        /// What burn reported.
        cause: String,
    },
}

/// The dtype and the shape of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorForm {
    /// The dtype.
    pub dtype: DType,
    /// The length of each axis.
    pub shape: Vec<usize>,
}

impl std::fmt::Display for TensorForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.dtype, self.shape)
    }
}

/// Errors of a call of a [`CapturedModel`](crate::CapturedModel) with another input than the one it
/// was captured with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CapturedCallError {
    /// The number of tensors differs.
    #[error(
        "the input has {found} tensors, expected {expected}: capture the model with such an input"
    )]
    Count {
        /// The number of the captured input.
        expected: usize,
        /// The number of this one.
        found: usize,
    },
    /// A tensor has another dtype or shape.
    #[error(
        "tensor {index} of the input is {found}, expected {expected}: capture the model with such \
         an input"
    )]
    Form {
        /// The tensor, from 0.
        index: usize,
        /// The form of the captured one.
        expected: TensorForm,
        /// The form of this one.
        found: TensorForm,
    },
    /// The input is on another device.
    #[error("the input is on {found}, expected {expected}: capture the model on that device")]
    Device {
        /// The device of the captured input.
        expected: String,
        /// The device of this one.
        found: String,
    },
}
