#![doc = include_str!("../README.md")]

mod basis;
mod grid;
mod kernels;

/// The kernels on slices, for programs without burn.
pub mod slices {
    // Knots, and the bases over them.
    pub use crate::basis::local_bases;
    pub use crate::grid::{Grid, GridError, MAX_DEGREE, Outside};

    // A layer and its passes.
    pub use crate::kernels::{
        Activation, Gradients, LayerError, LayerGeometry, Weights, backward, evaluate, forward,
    };

    // Which instructions, and the memory they work in.
    pub use crate::kernels::{Path, Scratch};

    // The same in f64, for benchmarks and doubters.
    #[cfg(feature = "reference")]
    pub use crate::kernels::reference;
}
