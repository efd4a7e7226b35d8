//! Why a layer is computed by burn's own operations.

use std::fmt;

#[cfg(feature = "cube")]
use crate::grid::Grid;
#[cfg(feature = "cube")]
use crate::kernels::Uniform;

/// Why a layer is computed by burn's own operations, which store all basis values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlainReason {
    /// It was chosen by `with_path` or `LayerPath::make_plain_default`.
    Forced,
    /// This build has no kernels for the device's backend.
    Backend,
    /// The device's cubes are smaller than those of the kernels for GPUs, 256 units and 16 KiB of
    /// shared memory; CubeCL's backend for CPUs is such a device.
    Device,
    /// The kernels for GPUs compute linear layers only.
    Convolution,
    /// The kernels for GPUs compute splines only.
    Functions,
    /// The kernels for GPUs compute degrees 1 to 3 only.
    Degree {
        /// The degree of the splines.
        degree: usize,
    },
    /// The kernels for GPUs compute equal intervals only, and the grid has knots for each feature.
    Knots,
    /// The intervals are too many, too short or too far away for positions in f32, and the kernels
    /// for GPUs have no f64.
    Intervals,
}

impl fmt::Display for PlainReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forced => formatter
                .write_str("it was chosen by `with_path` or `LayerPath::make_plain_default`"),
            Self::Backend => formatter.write_str(
                "this build has no kernels for the backend of the device; the features of \
                 updraft-kan that bear the names of backends compile them",
            ),
            Self::Device => formatter.write_str(
                "the kernels for GPUs need cubes of 256 units and 16 KiB of shared memory, which \
                 the device does not have",
            ),
            Self::Convolution => {
                formatter.write_str("the kernels for GPUs compute no convolutions")
            }
            Self::Functions => formatter.write_str(
                "the kernels for GPUs compute splines, and this layer has functions in closed form",
            ),
            Self::Degree { degree } => write!(
                formatter,
                "the kernels for GPUs compute degrees 1 to 3, and these splines have degree {degree}"
            ),
            Self::Knots => formatter.write_str(
                "the kernels for GPUs compute equal intervals, and this grid has knots for each \
                 feature",
            ),
            Self::Intervals => formatter.write_str(
                "the intervals are too many, too short or too far away for positions in f32, and \
                 the kernels for GPUs have no f64",
            ),
        }
    }
}

/// Why the kernels for GPUs do not compute splines over a grid; `None` if they do.
#[cfg(feature = "cube")]
pub(super) fn of_grid(grid: &Grid) -> Option<PlainReason> {
    let degree = grid.degree();
    if !grid.is_uniform() {
        Some(PlainReason::Knots)
    } else if !(1..=3).contains(&degree) {
        Some(PlainReason::Degree { degree })
    } else if Uniform::of(grid).is_none() {
        Some(PlainReason::Intervals)
    } else {
        None
    }
}

#[cfg(all(test, feature = "cube"))]
mod tests {
    use super::*;

    #[test]
    fn the_gpu_kernels_compute_uniform_grids_of_degree_1_to_3() {
        let uniform = |intervals, degree| Grid::uniform(-1.0, 1.0, intervals, degree).unwrap();
        for degree in 1..=3 {
            assert_eq!(of_grid(&uniform(5, degree)), None);
        }
        assert_eq!(of_grid(&uniform(5, 0)), Some(PlainReason::Degree { degree: 0 }));
        assert_eq!(of_grid(&uniform(5, 4)), Some(PlainReason::Degree { degree: 4 }));
        assert_eq!(of_grid(&uniform(3000, 3)), Some(PlainReason::Intervals));
        let grid = Grid::per_feature(1, vec![-1.0, 0.0, 1.0, 3.0], 1, 1).unwrap();
        assert_eq!(of_grid(&grid), Some(PlainReason::Knots));
    }
}
