//! Why a layer is computed by burn's own operations.

use std::fmt;

#[cfg(feature = "cube")]
use crate::grid::Grid;
use crate::kernels::cube_cost::{MOST_DEGREE, MOST_EXTENDED_DEGREE};
#[cfg(feature = "cube")]
use crate::kernels::cube_cost::{Unsupported, unsupported};

/// Why a layer is computed by burn's own operations, which store all basis values.
///
/// With the feature `tracing`, the first layer of a process with each reason, but for
/// [`Forced`](Self::Forced) and [`Backend`](Self::Backend), is a warning when it is computed.
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
    /// The kernels for GPUs compute splines only.
    Functions,
    /// The kernels for GPUs compute degrees up to 12, whose bases fit into shared memory.
    Degree {
        /// The degree of the splines.
        degree: usize,
    },
    /// The grid has knots for each feature, and polynomials above degree 5 are continued beyond
    /// them: there the recursion in f32 has errors above 10⁻⁵.
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
            Self::Functions => formatter.write_str(
                "the kernels for GPUs compute splines, and this layer has functions in closed form",
            ),
            Self::Degree { degree } => write!(
                formatter,
                "the kernels for GPUs compute degrees up to {MOST_DEGREE}, and these splines have \
                 degree {degree}"
            ),
            Self::Knots => write!(
                formatter,
                "the grid has knots for each feature, and the kernels for GPUs continue \
                 polynomials beyond them up to degree {MOST_EXTENDED_DEGREE} only"
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
    unsupported(grid).map(|unsupported| match unsupported {
        Unsupported::Degree => PlainReason::Degree { degree: grid.degree() },
        Unsupported::Knots => PlainReason::Knots,
        Unsupported::Intervals => PlainReason::Intervals,
    })
}

#[cfg(all(test, feature = "cube"))]
mod tests {
    use super::*;
    use crate::grid::Outside;

    #[test]
    fn grids_that_the_gpu_kernels_do_not_compute_have_a_reason() {
        let uniform = |intervals, degree| Grid::uniform(-1.0, 1.0, intervals, degree).unwrap();
        for degree in 0..=12 {
            assert_eq!(of_grid(&uniform(5, degree)), None);
        }
        assert_eq!(of_grid(&uniform(5, 13)), Some(PlainReason::Degree { degree: 13 }));
        assert_eq!(of_grid(&uniform(3000, 3)), Some(PlainReason::Intervals));
        let knots: Vec<f32> = (0..15).map(|knot| (knot * knot) as f32).collect();
        let uneven = Grid::per_feature(1, knots, 2, 6).unwrap();
        assert_eq!(of_grid(&uneven), None);
        let extended = uneven.with_outside(Outside::Extend);
        assert_eq!(of_grid(&extended), Some(PlainReason::Knots));
    }
}
