//! The buffers of a layer on a device, and their sizes.

use cubecl::prelude::*;

use super::layer::CubeLayer;

/// A layer's input and weights, row by row.
///
/// Instead of parameters that the layer does not have, any buffer: it is not read.
pub(crate) struct Inputs {
    /// `[batch, in_features]`.
    pub(crate) x: BufferArg,
    /// `[in_features, bases, out_features]`.
    pub(crate) spline: BufferArg,
    /// `[in_features, out_features]`.
    pub(crate) base: BufferArg,
    /// `[in_features, out_features]`.
    pub(crate) scaler: BufferArg,
}

/// The sizes of a pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(super) batch: u32,
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    /// The type of an index into the largest buffer.
    pub(super) address: AddressType,
}

impl Sizes {
    /// The sizes of a layer for a batch of at least one sample.
    ///
    /// # Panics
    /// If one of them is above 2³².
    pub(crate) fn new(layer: CubeLayer, batch: usize, inputs: usize, outputs: usize) -> Self {
        let size = |size: usize| u32::try_from(size).expect("at most 2^32 samples and features");
        let spline = inputs * outputs * layer.bases();
        let largest = spline.max(batch * inputs).max(batch * outputs).max(inputs * layer.knots());
        Self {
            batch: size(batch),
            inputs: size(inputs),
            outputs: size(outputs),
            address: AddressType::from_len(largest),
        }
    }
}

/// The destinations of the gradients.
#[cfg(feature = "autodiff")]
pub(crate) struct WeightGradients {
    /// Of the coefficients, without their splines' factors, `[in_features, bases, out_features]`.
    pub(crate) spline: BufferArg,
    /// Of the base weights, `[in_features, out_features]`, or any buffer if there are none.
    pub(crate) base: BufferArg,
}
