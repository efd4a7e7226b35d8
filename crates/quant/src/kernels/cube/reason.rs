//! Why a layer has no kernel on a device.

/// Why a layer cannot be computed on a device with the bits of the kernels for CPUs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceReason {
    /// No kernel of the operation is written for devices.
    #[error("no kernel of it is written for devices")]
    NoKernel,
    /// The operation divides in f64.
    #[error("its statistics need division and square roots in f64, which GPUs may not have")]
    NeedsF64,
    /// The layer runs in f32, and a layer in int8 reads its result.
    #[error(
        "it runs in f32 ({why}), and layer `{reader}` after it in int8: only layers in f32 after all \
         that are in int8 are computed, on the CPU; quantize it, or keep `{reader}` in f32"
    )]
    Float {
        /// Why it runs in f32.
        why: String,
        /// The layer in int8 that reads its result.
        reader: String,
    },
    /// A factor of its sums.
    #[error("the factor {factor} of its sums is above 2^64 or no number")]
    Factor {
        /// The factor: a step of the sums in steps of the output.
        factor: f32,
    },
    /// A tensor is too large.
    #[error("one sample of a tensor has {words} words of four codes, more than 2^28")]
    Large {
        /// Words of a sample.
        words: usize,
    },
}
