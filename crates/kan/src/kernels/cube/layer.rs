//! A layer as the arguments of its kernels.

use super::position::KnotsLaunch;
use crate::kernels::LayerGeometry;
use crate::kernels::cpu::Uniform;
pub(crate) use crate::kernels::cube_cost::CubeLayer;

impl CubeLayer {
    /// A layer with these optional parameters.
    pub(crate) fn new(
        geometry: &LayerGeometry,
        has_base: bool,
        is_scaled: bool,
        has_bias: bool,
    ) -> Self {
        let grid = geometry.grid();
        Self {
            degree: grid.degree(),
            intervals: grid.intervals(),
            outside: grid.outside(),
            activation: has_base.then(|| geometry.activation()),
            is_scaled,
            has_bias,
        }
    }
}

/// The grid's numbers as an argument of kernels.
///
/// # Panics
/// If the intervals are not equal, or f32 does not resolve positions in them.
pub(super) fn knots(geometry: &LayerGeometry) -> KnotsLaunch {
    let uniform = Uniform::of(geometry.grid()).expect("the caller has checked the grid");
    let Uniform { low, high, density, step: [coarse, fine], .. } = uniform;
    KnotsLaunch::new(low, high, density, coarse, fine, 0)
}
