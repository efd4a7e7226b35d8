//! The forms of the kernels for GPUs.

use std::fmt;

/// How the kernels for GPUs compute a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CubeForm {
    /// Only the bases that can differ from zero are multiplied: the fewest operations, each with a
    /// weight of its own from shared memory. The other forms are for degrees 1 to 3 over equal
    /// intervals.
    Sparse,
    /// All bases are multiplied, as a product of matrices: more operations, with several sums of a
    /// unit for each weight. For at most 32 rows of weights an input, and 32 KiB of shared memory.
    Dense,
    /// All bases are multiplied on tensor cores: values, weights and gradients are rounded to bf16,
    /// and their products summed in f32. For at most 64 rows of weights an input, 48 KiB of shared
    /// memory and planes of 32 units.
    Bf16,
    /// The same in f16.
    F16,
    /// All bases of a part of the batch are written to memory, at most 256 MiB, and multiplied by
    /// burn's matrix product, in f32: in TF32 on devices whose tensor cores have it.
    Expanded,
    /// The same in bf16: values, weights and gradients are rounded, and products summed in f32.
    ExpandedBf16,
    /// The same in f16.
    ExpandedF16,
}

impl fmt::Display for CubeForm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sparse => "sparse",
            Self::Dense => "dense",
            Self::Bf16 => "bf16 on tensor cores",
            Self::F16 => "f16 on tensor cores",
            Self::Expanded => "expanded",
            Self::ExpandedBf16 => "expanded in bf16",
            Self::ExpandedF16 => "expanded in f16",
        })
    }
}
