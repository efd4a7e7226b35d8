//! A pass of a linear layer on a GPU. Where its samples are in images, outputs are
//! `[batch, out_channels, ...]`, and the gradient of the input is that of the images.

use burn_cubecl::tensor::CubeTensor;

/// What a pass reads in addition to the layer, and what it writes.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "one value a pass, which is not stored")]
pub(super) enum Pass {
    /// From the input to the outputs.
    Forward {
        /// `[out_features]`.
        bias: Option<CubeTensor>,
        /// `[batch, out_features]`.
        y: CubeTensor,
    },
    /// To the gradient of the input.
    #[cfg(feature = "autodiff")]
    InputGradient {
        /// `[batch, out_features]`.
        dy: CubeTensor,
        /// `[batch, in_features]`.
        dx: CubeTensor,
    },
    /// To the gradients of coefficients without their splines' factors, and of base weights.
    #[cfg(feature = "autodiff")]
    WeightGradient {
        /// `[batch, out_features]`.
        dy: CubeTensor,
        /// `[in_features, bases, out_features]`.
        spline: CubeTensor,
        /// `[in_features, out_features]`.
        base: Option<CubeTensor>,
    },
}
