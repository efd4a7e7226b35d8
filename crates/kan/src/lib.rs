#![doc = include_str!("../README.md")]

mod basis;
mod grid;
#[cfg(feature = "serde")]
mod grid_record;
#[cfg(feature = "burn")]
mod import;
#[cfg_attr(
    not(all(feature = "flex", feature = "autodiff")),
    allow(dead_code, unused_imports, reason = "only flex and its gradients use all of it")
)]
mod kernels;
#[cfg(feature = "burn")]
mod layer;
#[cfg(feature = "burn")]
#[cfg_attr(
    not(all(feature = "flex", feature = "autodiff")),
    allow(dead_code, unused_imports, reason = "only flex and its gradients use all of it")
)]
mod ops;
mod regrid;
pub mod roofline;

// Layers and networks.
#[cfg(feature = "burn")]
pub use layer::{Kan, KanConfig, KanConfigError, KanLinear, KanLinearConfig, Penalty};

// Convolutions.
#[cfg(feature = "burn")]
pub use kernels::{BaseBranch, ConvError};
#[cfg(feature = "burn")]
pub use layer::{
    KanConv1d, KanConv1dConfig, KanConv2d, KanConv2dConfig, KanConv3d, KanConv3dConfig,
};

// Layers and networks of other functions than splines.
#[cfg(feature = "burn")]
pub use basis::{Basis, BasisError, Centers};
#[cfg(feature = "burn")]
pub use layer::{
    BasisConfigError, BasisConv1d, BasisConv1dConfig, BasisConv2d, BasisConv2dConfig, BasisConv3d,
    BasisConv3dConfig, BasisKan, BasisKanConfig, BasisLinear, BasisLinearConfig,
};

// The same for inference.
#[cfg(feature = "burn")]
pub use layer::{PackedKan, PackedKanLinear};

// Networks of other projects.
#[cfg(feature = "burn")]
pub use import::ImportError;

// The implementation of a layer.
pub use kernels::CubeForm;
#[cfg(feature = "burn")]
pub use ops::{LayerPath, PlainReason};

// The kernels for GPUs, for programs that compile them without a card.
#[cfg(feature = "every-kernel")]
pub use kernels::every_kernel;

// The description of an edge.
pub use grid::Outside;
pub use kernels::Activation;
#[cfg(feature = "burn")]
pub use regrid::{Placement, PlacementError};

/// The kernels on slices, for programs without burn.
pub mod slices {
    // Functions in closed form.
    pub use crate::basis::{Basis, BasisError, Centers};

    // Knots, and the bases over them.
    pub use crate::basis::local_bases;
    pub use crate::grid::{Grid, GridError, MAX_DEGREE, MAX_INTERVALS, Outside};

    // Other knots under the same functions.
    pub use crate::regrid::{Placement, PlacementError, refine, refit};

    // A layer and its passes.
    pub use crate::kernels::{
        Activation, Gradients, LayerError, LayerGeometry, Weights, backward, evaluate, forward,
    };

    // A convolution and its passes.
    pub use crate::kernels::{
        BaseBranch, ConvAxis, ConvError, ConvGeometry, conv_backward, conv_forward,
    };

    // Inference with packed weights, and with int8 coefficients.
    pub use crate::kernels::{PackedLayer, QuantizeError, QuantizedLayer, QuantizedScratch};

    // Instruction sets, scratch memory and its size.
    pub use crate::kernels::{Isa, LayerMemory, Scratch};

    // The f64 references, for tests and benchmarks.
    #[cfg(feature = "reference")]
    pub use crate::kernels::reference;
}
