//! The inner loops, generic over the vector, and the vectors.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod gradient;
mod image;
mod norm;
mod portable;
mod tile;
mod vector;

pub(crate) use gradient::WeightJob;
pub(crate) use image::{pad, transpose};
pub(crate) use norm::{Line, NormKernels};
pub(crate) use tile::TileJob;

use crate::kernels::path::Path;

/// Numbers that one vector of a path holds.
pub(crate) const fn lanes(path: Path) -> usize {
    match path {
        Path::Avx512 => 16,
        Path::Avx2 | Path::Portable => 8,
    }
}
