//! The functions of a basis on vectors: values, and gradients through them.

mod bump;
mod fourier;
mod lines;
mod polynomial;
mod rational;
mod sine;
mod tanh;

pub(super) use bump::{Bumps, Gaussian, MexicanHat, Rswaf};
pub(super) use fourier::Fourier;
pub(super) use lines::Lines;
pub(super) use polynomial::{Chebyshev, Legendre};
pub(super) use rational::Rational;

use updraft_simd::Simd;

/// Functions of one number in closed form, on a vector of numbers.
pub(super) trait Functions: Copy {
    /// Writes the value of each function at `x`.
    fn values<S: Simd>(self, simd: S, parameters: &[f32], x: S::Vector, values: Lines<S>);

    /// Writes the same values, and returns the derivative by `x` of their sum, weighted by `weights`.
    ///
    /// If the functions are `TRAINED`, the derivative by each parameter is added to `sums`.
    fn gradient<S: Simd, const TRAINED: bool>(
        self,
        simd: S,
        parameters: &[f32],
        x: S::Vector,
        lines: Gradient<S>,
    ) -> S::Vector;
}

/// The numbers of a vector of inputs that a gradient reads and writes.
#[derive(Clone, Copy)]
pub(super) struct Gradient<S: Simd> {
    /// The gradient of each function's value.
    pub(super) weights: Lines<S>,
    /// Where the values are written.
    pub(super) values: Lines<S>,
    /// Sums for each parameter.
    pub(super) sums: Lines<S>,
}

/// Computes an expression with the functions of a basis.
macro_rules! with_functions {
    ($basis:expr, $functions:ident => $result:expr) => {
        match *$basis {
            Basis::Gaussian(_) => {
                let $functions = Bumps(Gaussian);
                $result
            }
            Basis::Rswaf(_) => {
                let $functions = Bumps(Rswaf);
                $result
            }
            Basis::MexicanHat(_) => {
                let $functions = Bumps(MexicanHat);
                $result
            }
            Basis::Chebyshev { degree } => {
                let $functions = Chebyshev { degree };
                $result
            }
            Basis::Legendre { degree } => {
                let $functions = Legendre { degree };
                $result
            }
            Basis::Fourier { frequencies } => {
                let $functions = Fourier { frequencies };
                $result
            }
            Basis::Rational => {
                let $functions = Rational;
                $result
            }
        }
    };
}
pub(super) use with_functions;
