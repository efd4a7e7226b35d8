//! A layer as the kernels for GPUs are compiled for it.

use crate::grid::Outside;
use crate::kernels::Activation;

/// The part of a layer that its kernels are compiled for; sizes other than the number of bases are
/// arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CubeLayer {
    pub(crate) degree: usize,
    pub(crate) intervals: usize,
    pub(crate) outside: Outside,
    /// The function of the base branch, if there is one.
    pub(crate) activation: Option<Activation>,
    /// Whether splines have factors.
    pub(crate) is_scaled: bool,
    pub(crate) has_bias: bool,
}

impl CubeLayer {
    /// Bases that can differ from zero at a position.
    pub(crate) const fn taps(&self) -> usize {
        self.degree + 1
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
            outside: Outside::Zero,
            activation: Some(Activation::Silu),
            is_scaled: true,
            has_bias: false,
        }
    }
}
