//! A layer's grid as the arguments of its kernels.

use cubecl::prelude::BufferArg;

use super::position::KnotsLaunch;
use crate::grid::Grid;
use crate::kernels::cpu::Uniform;
pub(crate) use crate::kernels::cube_cost::CubeLayer;
use crate::kernels::cube_cost::Spacing;

/// A grid of a layer, and its knots on the device.
pub(crate) struct LayerGrid<'a> {
    pub(crate) grid: &'a Grid,
    /// Those of [`input_knots`], or any buffer if intervals are equal: it is not read.
    pub(crate) knots: BufferArg,
}

/// The numbers of a grid with equal intervals as an argument of kernels; zeros for others.
///
/// # Panics
/// If f32 does not resolve positions in them.
pub(super) fn knots(grid: &Grid) -> KnotsLaunch {
    if !grid.is_uniform() {
        return KnotsLaunch::new(0.0, 0.0, 0.0, 0.0, 0.0, 0);
    }
    let uniform = Uniform::of(grid).expect("the caller has checked the grid");
    let Uniform { low, high, density, step: [coarse, fine], .. } = uniform;
    KnotsLaunch::new(low, high, density, coarse, fine, 0)
}

/// The knots of all inputs as kernels read them, `[inputs, CubeLayer::knots]`: from `2·degree` before
/// the left end of the domain to `2·degree` after the right one. `None` if intervals are equal.
pub(crate) fn input_knots(grid: &Grid) -> Option<Vec<f32>> {
    let features = grid.features()?;
    let layer = CubeLayer::new(grid, None, false, false);
    debug_assert_eq!(layer.spacing, Spacing::PerInput, "a uniform grid has no features");
    let first = -2 * grid.degree() as isize;
    let of_one = layer.knots() as isize;
    let knots = (0..features).flat_map(|feature| {
        (first..first + of_one).map(move |index| grid.knot(feature, index) as f32)
    });
    Some(knots.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knots_of_inputs_continue_on_both_sides() {
        let knots = vec![-1.0, 0.0, 1.0, 3.0, -2.0, 0.0, 5.0, 6.0];
        let grid = Grid::per_feature(2, knots, 1, 1).unwrap();
        let expected = [-2.0, -1.0, 0.0, 1.0, 3.0, 5.0, -4.0, -2.0, 0.0, 5.0, 6.0, 7.0];
        assert_eq!(input_knots(&grid).unwrap(), expected);
        assert_eq!(input_knots(&Grid::uniform(-1.0, 1.0, 5, 3).unwrap()), None);
    }
}
