//! The inner loops, generic over the vector, and the vectors.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod depthwise;
#[cfg(any(test, feature = "flex"))]
mod fresh;
mod function;
mod gradient;
mod gradient_line;
mod image;
mod line;
mod norm;
mod plane;
mod pool;
mod portable;
mod sum;
mod tile;
mod vector;
mod winograd;

pub(crate) use depthwise::{DepthwiseJob, DepthwiseWeightJob, Grid};
#[cfg(feature = "flex")]
pub(crate) use fresh::{Fresh, fresh};
pub(crate) use function::PointwiseKernels;
pub(crate) use gradient::WeightJob;
pub(crate) use gradient_line::LineWeightJob;
pub(crate) use image::{pad, transpose};
pub(crate) use line::LineJob;
pub(crate) use norm::{Line, NormKernels};
pub(crate) use plane::{PlaneJob, WINDOW};
pub(crate) use pool::PoolKernels;
pub(crate) use sum::SumKernels;
pub(crate) use tile::TileJob;
pub(crate) use winograd::{POINTS, RESULTS, Squares, TAPS, Transform, TransformJob};

use crate::kernels::path::Path;

/// Numbers that one vector of a path holds.
pub(crate) const fn lanes(path: Path) -> usize {
    match path {
        Path::Avx512 => 16,
        Path::Avx2 | Path::Portable => 8,
    }
}
