//! A layer as the kernels for GPUs are compiled for it.

use crate::grid::{Grid, Outside};
use crate::kernels::Activation;

/// The highest degree of the kernels: the values of more bases leave no shared memory for weights.
pub(crate) const MOST_DEGREE: usize = 12;

/// The knots of a layer's splines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Spacing {
    /// Equal intervals, which all inputs share.
    Equal,
    /// Knots of each input, in memory.
    PerInput,
}

/// The part of a layer that its kernels are compiled for; sizes other than the number of bases are
/// arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CubeLayer {
    pub(crate) degree: usize,
    pub(crate) intervals: usize,
    pub(crate) spacing: Spacing,
    pub(crate) outside: Outside,
    /// The function of the base branch, if there is one.
    pub(crate) activation: Option<Activation>,
    /// Whether splines have factors.
    pub(crate) is_scaled: bool,
    pub(crate) has_bias: bool,
}

impl CubeLayer {
    /// A layer over a grid with these optional parameters.
    pub(crate) fn new(
        grid: &Grid,
        activation: Option<Activation>,
        is_scaled: bool,
        has_bias: bool,
    ) -> Self {
        Self {
            degree: grid.degree(),
            intervals: grid.intervals(),
            spacing: if grid.is_uniform() { Spacing::Equal } else { Spacing::PerInput },
            outside: grid.outside(),
            activation,
            is_scaled,
            has_bias,
        }
    }

    /// Whether the bases are polynomials that are written out; the recursion of Cox and de Boor
    /// computes others, in the sparse form alone.
    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.spacing, Spacing::Equal) && 1 <= self.degree && self.degree <= 3
    }

    /// Bases that can differ from zero at a position.
    pub(crate) const fn taps(&self) -> usize {
        self.degree + 1
    }

    /// Knots of an input in memory: those of the grid, and `degree` more on either side, with which
    /// the recursion computes the interval next to the ends.
    pub(crate) const fn knots(&self) -> usize {
        self.intervals + 4 * self.degree + 1
    }

    /// Basis functions of a spline.
    pub(crate) const fn bases(&self) -> usize {
        self.intervals + self.degree
    }

    /// Rows of weights of an input: the coefficients, and the base weights if there are any.
    pub(crate) const fn rows(&self) -> usize {
        self.bases() + self.activation.is_some() as usize
    }
}

#[cfg(test)]
impl CubeLayer {
    /// Cubic splines with a base branch and factors, and without a bias.
    pub(crate) fn cubic(intervals: usize) -> Self {
        Self {
            degree: 3,
            intervals,
            spacing: Spacing::Equal,
            outside: Outside::Zero,
            activation: Some(Activation::Silu),
            is_scaled: true,
            has_bias: false,
        }
    }
}
