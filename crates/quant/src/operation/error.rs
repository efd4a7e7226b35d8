//! Errors of operations.

use updraft_conv::slices::GeometryError;

/// Errors of an operation's inputs or parameters.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// A slice has another length.
    #[error("expected {expected} {what}, got {got}")]
    Length {
        /// The content of the slice.
        what: &'static str,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        got: usize,
    },
    /// A number is NaN or infinite.
    #[error("{what} {index} is {value}; a trained network has finite numbers")]
    NotFinite {
        /// The content of the slice.
        what: &'static str,
        /// The place.
        index: usize,
        /// The value.
        value: f32,
    },
    /// Another number of tensors.
    #[error("it reads {expected} tensors, got {got}")]
    Inputs {
        /// How many it reads.
        expected: usize,
        /// How many there are.
        got: usize,
    },
    /// A factor is not positive.
    #[error("the factor {factor} of a summand is not a positive normal number")]
    Factor {
        /// The factor.
        factor: f32,
    },
    /// Tensors that cannot be added.
    #[error("the summands are {shapes:?}; both must have one shape")]
    Summands {
        /// Their shapes.
        shapes: Vec<Vec<usize>>,
    },
    /// Tensors that cannot be multiplied.
    #[error(
        "the factors are {shapes:?}; both must have one shape, or the second one number for each \
         channel of the first"
    )]
    Factors {
        /// Their shapes.
        shapes: Vec<Vec<usize>>,
    },
    /// Tensors that cannot be concatenated.
    #[error(
        "tensors of {shapes:?} cannot be joined; there must be one at least, and all must agree \
         in all axes but the one that is joined"
    )]
    Joined {
        /// Their shapes.
        shapes: Vec<Vec<usize>>,
    },
    /// Matrices that cannot be multiplied.
    #[error(
        "matrices of {shapes:?} cannot be multiplied; all but the last two axes must agree, and \
         the columns of the first must be as many as the rows of the second"
    )]
    Matrices {
        /// Their shapes.
        shapes: Vec<Vec<usize>>,
    },
    /// An axis that a tensor does not have.
    #[error("a tensor of {shape:?} has no axis {axis}, counted from 0 without the batch")]
    Axis {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// The axis.
        axis: usize,
    },
    /// Numbers of a tensor that are not there.
    #[error(
        "a tensor of {from:?} cannot be rearranged to {to:?}: the axes must have as many places as \
         the result has numbers, and lie in the tensor"
    )]
    Places {
        /// The tensor's shape.
        from: Vec<usize>,
        /// The shape of the result.
        to: Vec<usize>,
    },
    /// Numbers that cannot be added around a tensor.
    #[error(
        "a tensor of {shape:?} cannot be padded by {before:?} and {after:?} zeros; there must be one \
         number for each axis, channels first, and at most 2³² numbers as a result"
    )]
    Padded {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// Zeros before each axis.
        before: Vec<usize>,
        /// Zeros behind each axis.
        after: Vec<usize>,
    },
    /// The epsilon of a normalization is not positive.
    #[error("the epsilon {epsilon} of a normalization is not a positive normal number")]
    Epsilon {
        /// The epsilon.
        epsilon: f32,
    },
    /// Channels that are no groups.
    #[error("the channels of {shape:?} cannot be divided into {groups} groups of one size")]
    Groups {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// How many groups.
        groups: usize,
    },
    /// A variance is negative, or zero with its epsilon.
    #[error("the variance {variance} of channel {channel} plus epsilon is not positive")]
    Variance {
        /// The channel.
        channel: usize,
        /// Its variance.
        variance: f32,
    },
    /// Windows that contain only padding.
    #[error("some windows lie in the padding alone; pad by less than the window spans")]
    Padding,
    /// Windows over axes that a tensor does not have.
    #[error(
        "windows move over one or two axes behind the channels and must keep others; a tensor of \
         {shape:?} does not fit them"
    )]
    Axes {
        /// The tensor's shape.
        shape: Vec<usize>,
    },
    /// A tensor that cannot be resized to this size.
    #[error(
        "a tensor of {shape:?} cannot be resized to {sides:?}, height and width; images and lines, \
         of one row, can, with sides from 1 on"
    )]
    Sides {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// What was asked for.
        sides: [usize; 2],
    },
    /// A tensor whose channels are no blocks of pixels.
    #[error(
        "the channels of {shape:?} are no blocks of {block} × {block} pixels; an image with a \
         multiple of {block} · {block} channels is"
    )]
    Blocks {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// Rows and columns of a block.
        block: usize,
    },
    /// Tensors that recorded operations do not read.
    #[error("recorded operations of burn read tensors of other sizes than {shapes:?}")]
    Recorded {
        /// Their shapes.
        shapes: Vec<Vec<usize>>,
    },
    /// The windows do not fit.
    #[error("{cause}")]
    Geometry {
        /// What does not fit.
        cause: GeometryError,
    },
}

/// Checks the number of inputs of an operation.
pub(super) fn check_count(x: &[Vec<usize>], expected: usize) -> Result<(), OperationError> {
    match x.len() {
        got if got == expected => Ok(()),
        got => Err(OperationError::Inputs { expected, got }),
    }
}

/// Checks that a summand can be multiplied by a factor.
pub(super) fn check_factor(factor: f32) -> Result<(), OperationError> {
    match factor.is_normal() && factor > 0.0 {
        true => Ok(()),
        false => Err(OperationError::Factor { factor }),
    }
}
