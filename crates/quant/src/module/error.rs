//! Errors of capturing a burn module.

use burn::tensor::DType;

use crate::network::GraphError;

/// A position in a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// burn's name of the operation.
    pub operation: String,
    /// Its number in the order of execution, from 0.
    pub index: usize,
    /// The last layer with parameters before it; empty if there is none.
    pub after: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "operation {} (`{}`)", self.index, self.operation)?;
        match self.after.as_str() {
            "" => formatter.write_str(", before the first layer"),
            after => write!(formatter, ", after layer `{after}`"),
        }
    }
}

/// Errors of capturing a burn module.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// An operation that neither a graph has nor burn can compute for one sample.
    #[error(
        "{place}: {what}; graphs do not support it, compute it outside of the captured function"
    )]
    Unsupported {
        /// Where.
        place: Place,
        /// The reason.
        what: String,
    },
    /// The module's operations depend on the batch size.
    #[error(
        "{place}: it differs between batches of {} and {} images; a graph is the same for every \
         batch, whose axis is the first", sizes[0], sizes[1]
    )]
    Batch {
        /// The first operation that differs.
        place: Place,
        /// The batch sizes that were tried.
        sizes: [usize; 2],
    },
    /// A tensor is not in f32.
    #[error("{place}: a tensor of {dtype:?}; capture the module in f32")]
    DType {
        /// Where.
        place: Place,
        /// The tensor's dtype.
        dtype: DType,
    },
    /// The output does not depend on the input.
    #[error("the module's output does not depend on its input")]
    Constant,
    /// burn could not record the module.
    #[error("burn could not record the module: {message}")]
    Recording {
        /// burn's message.
        message: String,
    },
    /// The layer is not supported by a graph.
    #[error("{place}")]
    Layer {
        /// Where.
        place: Place,
        /// Why.
        #[source]
        source: Box<GraphError>,
    },
}
