//! The kinds of basis functions.

use std::fmt;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use super::centers::Centers;
use super::chebyshev::Chebyshev;
use super::family::Family;
use super::fourier::Fourier;
use super::gaussian::Gaussian;
use super::legendre::Legendre;
use super::mexican_hat::MexicanHat;
use super::number::Number;
use super::rational::Rational;
use super::rswaf::Rswaf;

/// Bumps so many widths away from their center are 0 in f32 and in f64.
pub(super) const FAR: f64 = 40.0;

/// With more functions or higher degrees, rounding errors are too large.
const MOST: usize = 256;

/// The basis functions of a layer, other than splines.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(tag = "kind", rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum Basis {
    /// `exp(−u²)` with `u = (x − center)/width`: Li 2024, arXiv:2405.06721.
    Gaussian(Centers),
    /// `1 − tanh²(u)` with `u = (x − center)/width`: faster-kan.
    Rswaf(Centers),
    /// `c·(1 − u²)·exp(−u²/2)` with `u = (x − center)/width`: Bozorgasl and Chen 2024,
    /// arXiv:2405.12832.
    MexicanHat(Centers),
    /// Chebyshev polynomials of `tanh(x)`: Sidharth et al. 2024, arXiv:2405.07200.
    Chebyshev {
        /// The highest degree.
        degree: usize,
    },
    /// Legendre polynomials of `tanh(x)`.
    Legendre {
        /// The highest degree.
        degree: usize,
    },
    /// `cos(kx)` and `sin(kx)`: Xu et al. 2024, arXiv:2406.01034. An infinite input gives NaN.
    Fourier {
        /// The highest `k`.
        frequencies: usize,
    },
    /// One quotient of polynomials of degrees 5 and 4 for each group of inputs: Yang and Wang 2024,
    /// arXiv:2409.10594. An infinite input gives NaN.
    Rational,
}

/// Errors of a basis.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum BasisError {
    /// The functions are too few or too many.
    Functions {
        /// How many there would be.
        functions: usize,
        /// The minimum of a basis.
        least: usize,
    },
    /// The centers have no distance, or are not finite.
    Domain {
        /// The first center.
        low: f64,
        /// The last center.
        high: f64,
    },
}

impl fmt::Display for BasisError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Functions { functions, least } => {
                write!(
                    formatter,
                    "expected {least} to {MOST} functions (of polynomials the degree and one \
                     more), got {functions}"
                )
            }
            Self::Domain { low, high } => write!(
                formatter,
                "centers from {low} to {high} have no distance; expected finite numbers in \
                 ascending order"
            ),
        }
    }
}

impl std::error::Error for BasisError {}

/// Computes an expression with the family of a basis.
macro_rules! with_family {
    ($basis:expr, $family:ident => $result:expr) => {
        match *$basis {
            Basis::Gaussian(centers) => {
                let $family = Gaussian(centers);
                $result
            }
            Basis::Rswaf(centers) => {
                let $family = Rswaf(centers);
                $result
            }
            Basis::MexicanHat(centers) => {
                let $family = MexicanHat(centers);
                $result
            }
            Basis::Chebyshev { degree } => {
                let $family = Chebyshev { degree };
                $result
            }
            Basis::Legendre { degree } => {
                let $family = Legendre { degree };
                $result
            }
            Basis::Fourier { frequencies } => {
                let $family = Fourier { frequencies };
                $result
            }
            Basis::Rational => {
                let $family = Rational;
                $result
            }
        }
    };
}

impl Basis {
    /// Checks the numbers.
    ///
    /// # Errors
    /// [`BasisError`] if there are too few or too many functions, or their centers have no distance.
    pub fn validate(&self) -> Result<(), BasisError> {
        match self {
            Self::Gaussian(centers) | Self::Rswaf(centers) | Self::MexicanHat(centers) => {
                centers.validate()?;
            }
            Self::Fourier { frequencies: 0 } => {
                return Err(BasisError::Functions { functions: 0, least: 1 });
            }
            _ => {}
        }
        let functions = self.count();
        if functions > MOST {
            return Err(BasisError::Functions { functions, least: 1 });
        }
        Ok(())
    }

    /// How many functions there are.
    #[must_use]
    pub fn count(&self) -> usize {
        with_family!(self, family => family.count())
    }

    /// The initial parameters: centers, then the reciprocal of the width, or the coefficients
    /// of the numerator, then of the denominator. Polynomials and waves have none.
    #[must_use]
    pub fn parameters(&self) -> Vec<f64> {
        with_family!(self, family => family.parameters())
    }

    /// The value of each function at `x`.
    ///
    /// # Panics
    /// If there are not as many parameters as [`parameters`](Self::parameters) returns.
    ///
    /// # Example
    /// ```
    /// use updraft_kan::slices::Basis;
    ///
    /// let chebyshev = Basis::Chebyshev { degree: 2 };
    /// let u = 0.5_f64.tanh();
    /// let values = chebyshev.values(0.5, &chebyshev.parameters());
    /// assert_eq!(values, [1.0, u, 2.0 * u * u - 1.0]);
    /// ```
    #[must_use]
    pub fn values(&self, x: f64, parameters: &[f64]) -> Vec<f64> {
        self.values_of(x, parameters)
    }

    /// The derivative of each function at `x`.
    ///
    /// # Panics
    /// As [`values`](Self::values).
    #[must_use]
    pub fn slopes(&self, x: f64, parameters: &[f64]) -> Vec<f64> {
        self.slopes_of(x, parameters)
    }

    pub(crate) fn values_of<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        with_family!(self, family => {
            assert_eq!(parameters.len(), family.parameters().len(), "the parameters of the basis");
            family.values(x, parameters)
        })
    }

    pub(crate) fn slopes_of<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        with_family!(self, family => {
            assert_eq!(parameters.len(), family.parameters().len(), "the parameters of the basis");
            family.slopes(x, parameters)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn all() -> Vec<Basis> {
        let centers = Centers { functions: 5, low: -1.5, high: 2.0 };
        vec![
            Basis::Gaussian(centers),
            Basis::Rswaf(centers),
            Basis::MexicanHat(centers),
            Basis::Chebyshev { degree: 0 },
            Basis::Chebyshev { degree: 5 },
            Basis::Legendre { degree: 0 },
            Basis::Legendre { degree: 5 },
            Basis::Fourier { frequencies: 3 },
            Basis::Rational,
        ]
    }

    fn close(found: f64, expected: f64, bound: f64) {
        assert!((found - expected).abs() <= bound, "{found} and {expected}");
    }

    #[test]
    fn slopes_are_central_differences_of_values() {
        let step = 1e-6;
        for basis in all() {
            let parameters = basis.parameters();
            for at in -30..=30 {
                let x = f64::from(at) * 0.1 + 0.013;
                let [above, below] = [step, -step].map(|step| basis.values(x + step, &parameters));
                let slopes = basis.slopes(x, &parameters);
                assert_eq!(slopes.len(), basis.count(), "{basis:?}");
                for ((above, below), slope) in above.iter().zip(&below).zip(slopes) {
                    close(slope, (above - below) / (2.0 * step), 1e-8);
                }
            }
        }
    }

    #[test]
    fn values_are_those_of_the_textbooks() {
        let u = 0.7_f64.tanh();
        let of = |basis: Basis, x: f64| basis.values(x, &basis.parameters());
        let chebyshev = of(Basis::Chebyshev { degree: 5 }, 0.7);
        for (n, value) in (0_u32..).zip(&chebyshev) {
            close(*value, (f64::from(n) * u.acos()).cos(), 1e-14);
        }
        let legendre = of(Basis::Legendre { degree: 4 }, 0.7);
        let squared = u * u;
        for (value, expected) in legendre.iter().zip([
            1.0,
            u,
            (3.0 * squared - 1.0) / 2.0,
            u * (5.0 * squared - 3.0) / 2.0,
            (35.0 * squared * squared - 30.0 * squared + 3.0) / 8.0,
        ]) {
            close(*value, expected, 1e-14);
        }
        // Centers −2, 0 and 2, each 2 wide.
        let centers = Centers { functions: 3, low: -2.0, high: 2.0 };
        let bumps = |basis: fn(Centers) -> Basis| of(basis(centers), 1.0);
        let places = [1.5_f64, 0.5, -0.5];
        for (value, u) in bumps(Basis::Gaussian).iter().zip(places) {
            close(*value, (-u * u).exp(), 1e-15);
        }
        for (value, u) in bumps(Basis::Rswaf).iter().zip(places) {
            close(*value, u.cosh().powi(-2), 1e-15);
        }
        let norm = 2.0 / (3.0_f64.sqrt() * std::f64::consts::PI.powf(0.25));
        for (value, u) in bumps(Basis::MexicanHat).iter().zip(places) {
            close(*value, norm * (1.0 - u * u) * (-u * u / 2.0).exp(), 1e-15);
        }
        let fourier = of(Basis::Fourier { frequencies: 2 }, 0.7);
        for (value, expected) in
            fourier.iter().zip([0.7_f64.cos(), 0.7_f64.sin(), 1.4_f64.cos(), 1.4_f64.sin()])
        {
            close(*value, expected, 1e-15);
        }
        // P(x) = 1 + 2x and Q(x) = 1 + |−x²|.
        let mut parameters = vec![0.0; 10];
        (parameters[0], parameters[1], parameters[7]) = (1.0, 2.0, -1.0);
        close(Basis::Rational.values(3.0, &parameters)[0], 7.0 / 10.0, 1e-15);
    }

    #[test]
    fn a_rational_function_starts_close_to_silu() {
        for at in -30..=30 {
            let x = f64::from(at) * 0.1;
            let value = Basis::Rational.values(x, &Basis::Rational.parameters())[0];
            close(value, x / (1.0 + (-x).exp()), 2e-3);
        }
    }

    #[test]
    fn non_finite_inputs_have_defined_values() {
        for basis in all() {
            let parameters = basis.parameters();
            let values = |x| basis.values(x, &parameters);
            let slopes = |x| basis.slopes(x, &parameters);
            for function in [values(f64::NAN), slopes(f64::NAN)] {
                assert!(function.iter().all(|value| value.is_nan()), "{basis:?}");
            }
            for infinite in [f64::INFINITY, f64::NEG_INFINITY] {
                let all = [values(infinite), slopes(infinite)].concat();
                let is_nan = matches!(basis, Basis::Fourier { .. } | Basis::Rational);
                assert!(all.iter().all(|value| value.is_nan() == is_nan), "{basis:?} {all:?}");
            }
        }
    }

    #[test]
    fn what_makes_no_basis_is_refused() {
        let centers = |functions, low, high| Basis::Gaussian(Centers { functions, low, high });
        let message = |basis: Basis| basis.validate().unwrap_err().to_string();
        assert_eq!(
            message(centers(1, -1.0, 1.0)),
            "expected 2 to 256 functions (of polynomials the degree and one more), got 1"
        );
        assert_eq!(
            message(centers(3, 1.0, 1.0)),
            "centers from 1 to 1 have no distance; expected finite numbers in ascending order"
        );
        assert!(centers(3, f64::NAN, 1.0).validate().is_err());
        assert!(Basis::Fourier { frequencies: 0 }.validate().is_err());
        assert!(Basis::Chebyshev { degree: 256 }.validate().is_err());
        assert!(all().iter().all(|basis| basis.validate().is_ok()));
    }
}
