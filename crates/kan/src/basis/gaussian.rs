//! Gaussian radial basis functions.

use super::centers::{Centers, bumps};
use super::family::Family;
use super::number::Number;

/// `exp(−u²)` with `u = (x − center)/width`.
///
/// # Source
/// Li 2024, arXiv:2405.06721, equation 8, with the width of fast-kan instead of the factor 2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gaussian(pub(crate) Centers);

fn gaussian<V: Number>(u: V) -> V {
    (u.clone() * u).scaled(-1.0).exp()
}

impl Family for Gaussian {
    fn count(&self) -> usize {
        self.0.functions
    }

    fn parameters(&self) -> Vec<f64> {
        self.0.parameters()
    }

    fn values<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        bumps(&x, parameters, |u, _| gaussian(u))
    }

    /// `−2u·exp(−u²)/width`, with `u` clamped to a range beyond which it is 0.
    fn slopes<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        bumps(&x, parameters, |u, reciprocal| {
            let u = u.within(super::kind::FAR);
            (u.clone() * gaussian(u) * reciprocal.clone()).scaled(-2.0)
        })
    }
}
