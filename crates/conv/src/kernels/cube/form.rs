//! What kernels are compiled for, and the tensors that they read.

use cubecl::ir::ElemType;
use cubecl::prelude::*;

use crate::kernels::Activation;

/// What the kernels of a normalization are compiled for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// The numbers of the tensors; those of channels are of f32.
    pub(crate) numbers: ElemType,
    pub(crate) activation: Activation,
    pub(crate) has_residual: bool,
}

/// The tensors of a normalization.
pub(crate) struct Inputs {
    /// `[batch, channels, pixels]`.
    pub(crate) x: BufferArg,
    /// Of the same size; any buffer of the same numbers if there is none: it is not read.
    pub(crate) residual: BufferArg,
    /// `[channels]`.
    pub(crate) gamma: BufferArg,
    /// `[channels]`.
    pub(crate) beta: BufferArg,
    /// `[channels]`.
    pub(crate) mean: BufferArg,
    /// `[channels]`.
    pub(crate) variance: BufferArg,
}
