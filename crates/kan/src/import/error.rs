//! Errors of importing a network.

use std::fmt;

use burn::tensor::DType;

use crate::grid::GridError;
use crate::kernels::LayerError;

/// Errors of importing a [`Kan`](crate::Kan) from another project.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// No tensor has the name of a layer's coefficients.
    NoLayers {
        /// Tensors given.
        tensors: usize,
    },
    /// The names of the layers do not belong to a single network.
    Layers {
        /// The path of a layer.
        first: String,
        /// The path of another layer.
        second: String,
    },
    /// A tensor is missing.
    Missing {
        /// Its name.
        name: String,
    },
    /// A tensor has another shape than the ones it belongs to.
    Shape {
        /// Its name.
        name: String,
        /// The expected shape; 0 is any length.
        expected: Vec<usize>,
        /// What it is.
        actual: Vec<usize>,
    },
    /// A tensor holds no floating-point numbers.
    Dtype {
        /// Its name.
        name: String,
        /// What it holds.
        dtype: DType,
    },
    /// A layer's inputs are not the outputs of the one before it.
    Chain {
        /// The layer's coefficients.
        name: String,
        /// Outputs of the layer before.
        expected: usize,
        /// Inputs of the layer.
        actual: usize,
    },
    /// The knots are invalid.
    Grid {
        /// The tensor that holds them.
        name: String,
        /// Why.
        source: GridError,
    },
    /// The layer is invalid.
    Layer {
        /// The layer's coefficients.
        name: String,
        /// Why.
        source: LayerError,
    },
    /// An edge computes a formula instead of a spline.
    Symbolic {
        /// The tensor that shows it.
        name: String,
    },
    /// Some nodes multiply.
    Multiplication {
        /// The layer, counted from the input.
        layer: usize,
        /// Sums of edges.
        sums: usize,
        /// Nodes computed from them.
        nodes: usize,
    },
    /// The layers are those of fast-kan.
    Gaussian {
        /// The tensor that shows it.
        name: String,
    },
    /// No tensor has the name of fast-kan's centers.
    NoGaussians {
        /// Tensors given.
        tensors: usize,
    },
    /// The bytes are no safetensors file.
    Safetensors(safetensors::SafeTensorError),
}

impl fmt::Display for ImportError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLayers { tensors } => write!(
                formatter,
                "expected names that end in `spline_weight` (efficient-kan) or `act_fun.0.coef` \
                 (pykan), got {tensors} others"
            ),
            Self::Layers { first, second } => write!(
                formatter,
                "`{first}` and `{second}` are not numbered layers of one network; give the \
                 tensors of one network"
            ),
            Self::Missing { name } => write!(formatter, "there is no tensor `{name}`"),
            Self::Shape { name, expected, actual } => {
                write!(formatter, "expected `{name}` of shape {expected:?}, got {actual:?}")
            }
            Self::Dtype { name, dtype } => {
                write!(formatter, "expected floating-point numbers in `{name}`, got {dtype:?}")
            }
            Self::Chain { name, expected, actual } => write!(
                formatter,
                "expected `{name}` for the {expected} outputs of the layer before it, got \
                 {actual} inputs"
            ),
            Self::Grid { name, .. } => write!(formatter, "the knots in `{name}` make no grid"),
            Self::Layer { name, .. } => write!(formatter, "`{name}` makes no layer"),
            Self::Symbolic { name } => write!(
                formatter,
                "`{name}` has edges that are formulae, which no spline is; save the model before \
                 `fix_symbolic`"
            ),
            Self::Multiplication { layer, sums, nodes } => write!(
                formatter,
                "layer {layer} multiplies some of its {sums} sums to get {nodes} nodes; only \
                 networks of sums can be read"
            ),
            Self::Gaussian { name } => write!(
                formatter,
                "`{name}` belongs to fast-kan, whose bases are Gaussians over a normalized input: \
                 no layer of splines is that function; `BasisKan::import` reads it"
            ),
            Self::NoGaussians { tensors } => write!(
                formatter,
                "expected names that end in `rbf.grid` (fast-kan), got {tensors} others"
            ),
            Self::Safetensors(_) => formatter.write_str("the bytes are not a safetensors file"),
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Grid { source, .. } => Some(source),
            Self::Layer { source, .. } => Some(source),
            Self::Safetensors(source) => Some(source),
            _ => None,
        }
    }
}
