//! Mexican-hat wavelets.

use super::centers::{Centers, bumps};
use super::family::Family;
use super::number::Number;

/// `c·(1 − u²)·exp(−u²/2)` with `u = (x − center)/width` and `c = 2/(√3·π^¼)`.
///
/// # Source
/// Bozorgasl and Chen 2024, arXiv:2405.12832, table 1; there with a scale and a translation for
/// each edge, here with shared ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MexicanHat(pub(crate) Centers);

/// `2/(√3·π^¼)`: the wavelet's square has the integral 1.
const NORM: f64 = 0.867_325_070_584_078_4;

fn gaussian<V: Number>(u: V) -> V {
    (u.clone() * u).scaled(-0.5).exp()
}

impl Family for MexicanHat {
    fn count(&self) -> usize {
        self.0.functions
    }

    fn parameters(&self) -> Vec<f64> {
        self.0.parameters()
    }

    fn values<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        bumps(&x, parameters, |u, _| {
            let u = u.within(super::kind::FAR);
            let hat = (u.clone() * u.clone()).scaled(-1.0).shifted(1.0);
            (hat * gaussian(u)).scaled(NORM)
        })
    }

    /// `c·(u³ − 3u)·exp(−u²/2)/width`.
    fn slopes<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        bumps(&x, parameters, |u, reciprocal| {
            let u = u.within(super::kind::FAR);
            let cubic = (u.clone() * u.clone()).shifted(-3.0) * u.clone();
            (cubic * gaussian(u) * reciprocal.clone()).scaled(NORM)
        })
    }
}
