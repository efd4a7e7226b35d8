//! A layer as its kernels are compiled for it.

use super::position::KnotsLaunch;
use crate::grid::Outside;
use crate::kernels::cpu::Uniform;
use crate::kernels::{Activation, LayerGeometry};

/// The part of a layer that its kernels are compiled for; sizes other than the number of bases are
/// arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CubeLayer {
    pub(super) degree: usize,
    pub(super) intervals: usize,
    pub(super) outside: Outside,
    /// The function of the base branch, if there is one.
    pub(super) activation: Option<Activation>,
    /// Whether splines have factors.
    pub(super) is_scaled: bool,
    pub(super) has_bias: bool,
}

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

    /// Bases that can differ from zero at a position.
    pub(super) const fn taps(&self) -> usize {
        self.degree + 1
    }

    /// Basis functions of a spline.
    pub(super) const fn bases(&self) -> usize {
        self.intervals + self.degree
    }

    /// Rows of weights of an input: the coefficients, and the base weights if there are any.
    pub(crate) const fn rows(&self) -> usize {
        self.bases() + self.activation.is_some() as usize
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
