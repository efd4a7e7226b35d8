//! Errors of a network on a GPU.

use crate::kernels::cube::DeviceReason;

/// Errors of a network on a GPU.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device is none of burn's GPU backends.
    #[error(
        "`{device}` is not a GPU that this program has kernels for; run the network on the CPU"
    )]
    NoGpu {
        /// The device.
        device: String,
    },
    /// The device's cubes are too small.
    #[error(
        "the device has cubes of {units} units, and the kernels need {needed}; use another one"
    )]
    Units {
        /// Units of the largest cube.
        units: u32,
        /// Units of the kernels' cubes.
        needed: u32,
    },
    /// No layer runs in int8.
    #[error("no layer of the network runs in int8, so that none would run on the device")]
    NoInt8Layer,
    /// A layer or an input has no kernel with the bits of the CPU.
    #[error("layer `{layer}` ({operation}) cannot run on the device: {cause}")]
    Layer {
        /// The layer, or the input.
        layer: String,
        /// The kind of its operation, as in files.
        operation: &'static str,
        /// Why.
        cause: DeviceReason,
    },
    /// The device failed.
    #[error("the device failed: {cause}")]
    Failed {
        /// What its driver reports.
        cause: String,
    },
}
