#![doc = include_str!("../README.md")]

#[cfg_attr(
    not(feature = "flex"),
    allow(dead_code, reason = "only burn's operations on flex use all kernels")
)]
mod kernels;
#[cfg(feature = "burn")]
mod layer;
#[cfg(feature = "burn")]
mod ops;

// Layers, whose records are those of burn's own.
#[cfg(feature = "burn")]
pub use layer::{
    AdaptiveAvgPool2d, AvgPool2d, AvgPool3d, AvgPool3dConfig, BatchNorm, Conv1d, Conv2d, Conv3d,
    ConvNormActivation, ConvTranspose2d, ConvTranspose3d, GroupNorm, InstanceNorm, MaxPool2d,
    MaxPool3d, MaxPool3dConfig, SampleNorm, initialize_parameters,
};

// Recording of convolutions.
#[cfg(feature = "burn")]
pub use ops::{ObservedConvolution, observe_convolutions};

// The implementation of a layer, and why burn's operations are.
#[cfg(feature = "burn")]
pub use ops::{LayerPath, PlainReason};

// Operations on burn's tensors.
#[cfg(feature = "burn")]
pub use ops::{
    BatchNormOutput, activate, batch_norm_train, conv_transpose2d, conv_transpose3d, conv2d,
    conv3d, fake_quantize, group_norm, join_channels, resize2d, resize3d, weighted_sum,
};

// Batch norms over several ranks.
#[cfg(feature = "burn")]
pub use ops::{Gather, synchronize_batch_norms};

// The kernels for GPUs, for programs that compile them without a card.
#[cfg(feature = "every-kernel")]
pub use kernels::every_kernel;

// Memory that operations on flex keep for reuse.
#[cfg(feature = "flex")]
pub use updraft_simd::{release_memory, set_memory_capacity};

// Activations of convolutions and normalizations.
pub use kernels::{Activation, Slope};

// The alignment of pixels in a resize.
pub use kernels::Alignment;

/// The kernels on slices, for programs without burn.
pub mod slices {
    // A convolution's shape and its passes.
    pub use crate::kernels::{
        ConvGeometry, ConvShape, GeometryError, forward, input_gradient, weight_gradient,
    };

    // The forward pass with weights that are packed once.
    pub use crate::kernels::{Activation, PackedConvolution, PackedProduct};

    // The same of volumes.
    pub use crate::kernels::{
        Conv3dGeometry, Conv3dShape, forward_3d, input_gradient_3d, weight_gradient_3d,
    };

    // The algorithm of a pass, with the reason.
    pub use crate::kernels::{Algorithm, Pass, Strategy, strategy};

    // Batch normalization by the batch's statistics.
    pub use crate::kernels::{
        BatchNormShape, NormGradients, Normalization, Statistics, batch_norm, batch_norm_gradient,
    };

    // Instruction sets and scratch memory.
    pub use crate::kernels::{Isa, Scratch};

    // The f64 references, for tests and benchmarks.
    #[cfg(feature = "reference")]
    pub use crate::kernels::reference;
}
