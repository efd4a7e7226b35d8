//! A network's layers and their weights in f32, each checked when it is added.

use updraft_conv::slices::{ConvGeometry, ConvShape, GeometryError};

use super::function::Function;
use crate::kernels::Pooling;

/// What a layer gives: images of some channels, height and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value(pub(super) usize);

/// A window that moves over an image: kernel, stride, padding and dilation, by height and width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Rows and columns of the window.
    pub kernel: [usize; 2],
    /// Rows and columns from one window to the next.
    pub stride: [usize; 2],
    /// Rows above and below, columns left and right.
    pub padding: [usize; 2],
    /// Rows and columns from one entry of the window to the next.
    pub dilation: [usize; 2],
}

impl Window {
    /// Stride and dilation 1, no padding.
    #[must_use]
    pub const fn new(kernel: [usize; 2]) -> Self {
        Self { kernel, stride: [1; 2], padding: [0; 2], dilation: [1; 2] }
    }
}

/// Why a layer cannot be added.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A slice has another length.
    #[error("layer `{layer}`: expected {expected} {what}, got {got}")]
    Length {
        /// The layer.
        layer: String,
        /// What the slice holds.
        what: &'static str,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        got: usize,
    },
    /// Two tensors differ in shape.
    #[error("layer `{layer}`: the summands are {a:?} and {b:?}, as channels, height and width")]
    Summands {
        /// The layer.
        layer: String,
        /// One shape.
        a: [usize; 3],
        /// The other.
        b: [usize; 3],
    },
    /// Two tensors that cannot be multiplied.
    #[error(
        "layer `{layer}`: the factors are {a:?} and {b:?}, as channels, height and width; the \
         second may also have one pixel"
    )]
    Factors {
        /// The layer.
        layer: String,
        /// One shape.
        a: [usize; 3],
        /// The other.
        b: [usize; 3],
    },
    /// Tensors that cannot be put one behind the other.
    #[error(
        "layer `{layer}`: images of {shapes:?}, as channels, height and width, cannot be joined; \
         there must be one at least, and all of one height and width"
    )]
    Joined {
        /// The layer.
        layer: String,
        /// Their shapes.
        shapes: Vec<[usize; 3]>,
    },
    /// A number is NaN or infinite.
    #[error("layer `{layer}`: {what} {index} is {value}; a trained network has finite numbers")]
    NotFinite {
        /// The layer.
        layer: String,
        /// What the slice holds.
        what: &'static str,
        /// The place.
        index: usize,
        /// What stands there.
        value: f32,
    },
    /// A variance is negative, or with its epsilon nothing.
    #[error(
        "layer `{layer}`: the variance {variance} of channel {channel} leaves nothing to divide by"
    )]
    Variance {
        /// The layer.
        layer: String,
        /// The channel.
        channel: usize,
        /// Its variance.
        variance: f32,
    },
    /// An image without numbers.
    #[error("images of {shape:?}, as channels, height and width, hold no number")]
    Empty {
        /// What was given.
        shape: [usize; 3],
    },
    /// Windows that hold nothing but padding.
    #[error(
        "layer `{layer}`: some windows lie in the padding alone; pad by less than the window spans"
    )]
    Padding {
        /// The layer.
        layer: String,
    },
    /// The windows do not fit.
    #[error("layer `{layer}`")]
    Geometry {
        /// The layer.
        layer: String,
        /// What does not fit.
        #[source]
        source: GeometryError,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operation {
    Input,
    Convolution {
        geometry: ConvGeometry,
        weights: Vec<f32>,
        bias: Vec<f32>,
    },
    /// `x·scale + shift`, channel by channel.
    Affine {
        scale: Vec<f32>,
        shift: Vec<f32>,
    },
    Rectifier,
    Function(Function),
    Add,
    /// The second factor may have one pixel, which multiplies all of the first.
    Multiply,
    /// Channels of one tensor behind those of the other.
    Concatenate,
    /// Over the channels of each pixel.
    Softmax,
    Pool {
        geometry: ConvGeometry,
        pooling: Pooling,
    },
    /// Weights `[outputs][channels][height][width]`.
    Linear {
        weights: Vec<f32>,
        bias: Vec<f32>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) inputs: Vec<usize>,
    /// Channels, height and width.
    pub(super) shape: [usize; 3],
}

/// A network from one image to one answer; the last layer added gives it.
///
/// Layers are added in order, each by the values it reads. Weights are in burn's order, which is
/// that of ONNX: `[outputs, inputs / groups, height, width]`, `[outputs, inputs]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(super) nodes: Vec<Node>,
}

impl Graph {
    /// A graph without layers, for images of `[channels, height, width]`.
    ///
    /// # Errors
    /// [`GraphError::Empty`] if one of them is zero.
    pub fn try_new(input: [usize; 3]) -> Result<Self, GraphError> {
        if input.contains(&0) {
            return Err(GraphError::Empty { shape: input });
        }
        let (name, inputs) = ("input".to_owned(), Vec::new());
        let node = Node { name, operation: Operation::Input, inputs, shape: input };
        Ok(Self { nodes: vec![node] })
    }

    /// What the graph reads.
    #[must_use]
    pub const fn input(&self) -> Value {
        Value(0)
    }

    /// Channels, height and width of a value.
    ///
    /// # Panics
    /// If the value is another graph's.
    #[must_use]
    pub fn shape(&self, value: Value) -> [usize; 3] {
        self.nodes[value.0].shape
    }

    /// Channels, height and width of the answer.
    #[must_use]
    pub fn output_shape(&self) -> [usize; 3] {
        self.nodes[self.nodes.len() - 1].shape
    }

    /// A convolution.
    ///
    /// # Errors
    /// [`GraphError`] for windows that do not fit, another length, or NaN and infinity.
    pub fn convolution(
        &mut self,
        name: &str,
        x: Value,
        window: Window,
        groups: usize,
        weights: &[f32],
        bias: &[f32],
    ) -> Result<Value, GraphError> {
        let geometry = self.geometry(name, x, window, bias.len(), groups)?;
        check(name, "weights", geometry.weight_len(), weights)?;
        check(name, "biases", bias.len(), bias)?;
        let [rows, columns] = geometry.output();
        let shape = [bias.len(), rows, columns];
        let (weights, bias) = (weights.to_vec(), bias.to_vec());
        Ok(self.push(name, Operation::Convolution { geometry, weights, bias }, &[x], shape))
    }

    /// A batch normalization as it runs after training, with its running statistics:
    /// `gamma·(x − mean)/√(variance + epsilon) + beta`.
    ///
    /// # Errors
    /// [`GraphError`] for another length, NaN and infinity, or a variance without a root.
    #[expect(clippy::too_many_arguments, reason = "each is one parameter of the layer")]
    pub fn batch_norm(
        &mut self,
        name: &str,
        x: Value,
        gamma: &[f32],
        beta: &[f32],
        mean: &[f32],
        variance: &[f32],
        epsilon: f64,
    ) -> Result<Value, GraphError> {
        let shape = self.shape(x);
        for (what, values) in
            [("gammas", gamma), ("betas", beta), ("means", mean), ("variances", variance)]
        {
            check(name, what, shape[0], values)?;
        }
        let (mut scale, mut shift) = (Vec::new(), Vec::new());
        for channel in 0..shape[0] {
            let spread = f64::from(variance[channel]) + epsilon;
            let factor = f64::from(gamma[channel]) / spread.sqrt();
            if !(variance[channel] >= 0.0 && spread > 0.0 && (factor as f32).is_finite()) {
                let (layer, variance) = (name.to_owned(), variance[channel]);
                return Err(GraphError::Variance { layer, channel, variance });
            }
            scale.push(factor as f32);
            shift.push((f64::from(beta[channel]) - f64::from(mean[channel]) * factor) as f32);
        }
        Ok(self.push(name, Operation::Affine { scale, shift }, &[x], shape))
    }

    /// The greatest number or the mean of windows.
    ///
    /// # Errors
    /// [`GraphError::Geometry`] for windows that do not fit, [`GraphError::Padding`] for windows
    /// that hold nothing but padding.
    pub fn pool(
        &mut self,
        name: &str,
        x: Value,
        window: Window,
        pooling: Pooling,
    ) -> Result<Value, GraphError> {
        let channels = self.shape(x)[0];
        let geometry = self.geometry(name, x, window, channels, channels)?;
        let [rows, columns] = geometry.output();
        let [_, height, width] = self.shape(x);
        let holds = |axis: usize, window_index: usize, side: usize| {
            let first = window_index * window.stride[axis];
            (0..window.kernel[axis]).any(|entry| {
                let place =
                    (first + entry * window.dilation[axis]).checked_sub(window.padding[axis]);
                place.is_some_and(|place| place < side)
            })
        };
        if !(0..rows).all(|row| holds(0, row, height))
            || !(0..columns).all(|column| holds(1, column, width))
        {
            return Err(GraphError::Padding { layer: name.to_owned() });
        }
        let shape = [channels, rows, columns];
        Ok(self.push(name, Operation::Pool { geometry, pooling }, &[x], shape))
    }

    /// A fully connected layer over all numbers of an image, in the order channel, row, column.
    ///
    /// # Errors
    /// [`GraphError`] for another length, or NaN and infinity.
    pub fn linear(
        &mut self,
        name: &str,
        x: Value,
        weights: &[f32],
        bias: &[f32],
    ) -> Result<Value, GraphError> {
        let inputs: usize = self.shape(x).iter().product();
        check(name, "weights", inputs * bias.len(), weights)?;
        check(name, "biases", bias.len().max(1), bias)?;
        let (weights, bias, shape) = (weights.to_vec(), bias.to_vec(), [bias.len(), 1, 1]);
        Ok(self.push(name, Operation::Linear { weights, bias }, &[x], shape))
    }

    fn geometry(
        &self,
        name: &str,
        x: Value,
        window: Window,
        outputs: usize,
        groups: usize,
    ) -> Result<ConvGeometry, GraphError> {
        let [channels, height, width] = self.shape(x);
        let Window { kernel, stride, padding, dilation } = window;
        let shape = ConvShape::new(1, [channels, outputs], [height, width], kernel);
        ConvGeometry::try_new(ConvShape { groups, stride, padding, dilation, ..shape })
            .map_err(|source| GraphError::Geometry { layer: name.to_owned(), source })
    }

    /// Leaves out what was added after a value, which becomes the answer.
    #[cfg_attr(not(feature = "burn"), expect(dead_code, reason = "for networks out of modules"))]
    pub(crate) fn end_at(&mut self, value: Value) {
        self.nodes.truncate(value.0 + 1);
    }

    pub(super) fn push(
        &mut self,
        name: &str,
        operation: Operation,
        inputs: &[Value],
        shape: [usize; 3],
    ) -> Value {
        let inputs = inputs.iter().map(|value| value.0).collect();
        self.nodes.push(Node { name: name.to_owned(), operation, inputs, shape });
        Value(self.nodes.len() - 1)
    }
}

pub(super) fn check(
    layer: &str,
    what: &'static str,
    expected: usize,
    values: &[f32],
) -> Result<(), GraphError> {
    let layer = layer.to_owned();
    if values.len() != expected {
        return Err(GraphError::Length { layer, what, expected, got: values.len() });
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(GraphError::NotFinite { layer, what, index, value: values[index] }),
    }
}
