#![doc = include_str!("../README.md")]

mod kernels;
#[cfg(feature = "burn")]
mod ops;

// Operations on burn's tensors.
#[cfg(feature = "burn")]
pub use ops::{BatchNormOutput, batch_norm_train, conv2d};

// What follows a normalization.
pub use kernels::Activation;

/// The kernels on slices, for programs without burn.
pub mod slices {
    // A convolution's shape and its passes.
    pub use crate::kernels::{
        ConvGeometry, ConvShape, GeometryError, forward, input_gradient, weight_gradient,
    };

    // Batch normalization with the batch's statistics.
    pub use crate::kernels::{
        BatchNormShape, NormGradients, Normalization, Statistics, batch_norm, batch_norm_gradient,
    };

    // Which instructions, and the memory they work in.
    pub use crate::kernels::{Path, Scratch};

    // The same in f64, for benchmarks and doubters.
    #[cfg(feature = "reference")]
    pub use crate::kernels::reference;
}
