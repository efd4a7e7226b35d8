//! Errors of reading a model file.

use super::VERSION;
use crate::operation::OperationError;
use crate::scheme::SchemeError;
use crate::weights::WeightError;

/// Errors of reading a model file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The bytes are no safetensors file, or only a part of one.
    #[error(
        "the bytes are not a safetensors file: {cause}; it may be truncated or of another format"
    )]
    Container {
        /// The message of the container's reader.
        cause: String,
    },
    /// A safetensors file that is not a model.
    #[error("the file is not a quantized model of updraft: its metadata has no header of one")]
    Foreign,
    /// Another version.
    #[error(
        "the file has version {version}, this program reads {VERSION}; quantize the model again"
    )]
    Version {
        /// The file's version.
        version: u32,
    },
    /// The bytes are not those that were written.
    #[error("the file's hash does not match its content; it is damaged, copy it again")]
    Hash,
    /// The header is invalid.
    #[error("the file's header is invalid: {cause}")]
    Header {
        /// What is wrong.
        cause: String,
    },
    /// A value is invalid.
    #[error("layer {layer}: {what} is invalid")]
    Value {
        /// The layer, counted from 0.
        layer: usize,
        /// The value.
        what: &'static str,
    },
    /// A tensor's scheme.
    #[error("tensor {tensor}: {cause}")]
    Scheme {
        /// The tensor; the inputs come first.
        tensor: usize,
        /// What is wrong.
        cause: SchemeError,
    },
    /// A layer's weights.
    #[error("layer {layer}: {cause}")]
    Weights {
        /// The layer, counted from 0.
        layer: usize,
        /// What is wrong.
        cause: WeightError,
    },
    /// A layer does not fit its inputs or parameters.
    #[error("layer {layer}: {cause}")]
    Operation {
        /// The layer, counted from 0.
        layer: usize,
        /// What is wrong.
        cause: OperationError,
    },
}
