//! Why bytes are no model.

use updraft_conv::slices::GeometryError;

use super::VERSION;
use crate::scheme::SchemeError;
use crate::weights::WeightError;

/// Why bytes are no model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The first bytes are another format's.
    #[error("the bytes do not begin as a quantized model of updraft does; is it another file?")]
    Foreign,
    /// Another version.
    #[error(
        "the file has version {version}, this program reads {VERSION}; quantize the model anew"
    )]
    Version {
        /// The file's version.
        version: u32,
    },
    /// The bytes end early.
    #[error("the file ends at byte {at}, within {what}; it was cut, copy it again")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// How many bytes there are.
        at: usize,
    },
    /// Bytes follow where none should.
    #[error("{extra} bytes follow the model; it is damaged, copy it again")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// The bytes are not those that were written.
    #[error("the file's hash does not fit its bytes; it is damaged, copy it again")]
    Hash,
    /// A part has a value that no model has.
    #[error("layer {layer}: {what} is not one of a model")]
    Value {
        /// The layer, counted from 0.
        layer: usize,
        /// What was read.
        what: &'static str,
    },
    /// A tensor's scheme.
    #[error("tensor {tensor}")]
    Scheme {
        /// The tensor; 0 is the input.
        tensor: usize,
        /// What is wrong.
        #[source]
        source: SchemeError,
    },
    /// A layer's weights.
    #[error("layer {layer}")]
    Weights {
        /// The layer, counted from 0.
        layer: usize,
        /// What is wrong.
        #[source]
        source: WeightError,
    },
    /// A layer's window.
    #[error("layer {layer}")]
    Geometry {
        /// The layer, counted from 0.
        layer: usize,
        /// What is wrong.
        #[source]
        source: GeometryError,
    },
}
