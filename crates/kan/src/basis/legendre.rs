//! Legendre polynomials.

use super::family::Family;
use super::number::Number;

/// `P₀(u)` to `P_degree(u)` with `u = tanh(x)`, which maps every input to their interval.
///
/// # Source
/// Abramowitz and Stegun 1964, 22.7.10: `(n+1)·P_{n+1} = (2n+1)·u·P_n − n·P_{n−1}`, and 22.8.5 with
/// it for the slopes: `P'_{n+1} = P'_{n−1} + (2n+1)·P_n`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Legendre {
    /// The highest degree.
    pub(crate) degree: usize,
}

impl Family for Legendre {
    fn count(&self) -> usize {
        self.degree + 1
    }

    fn parameters(&self) -> Vec<f64> {
        Vec::new()
    }

    fn values<V: Number>(&self, x: V, _: &[V]) -> Vec<V> {
        polynomials(self.degree, &x.tanh())
    }

    fn slopes<V: Number>(&self, x: V, _: &[V]) -> Vec<V> {
        let u = x.tanh();
        let values = polynomials(self.degree, &u);
        let zero = u.clone().scaled(0.0);
        let mut slopes = vec![zero.clone()];
        for n in 0..self.degree {
            let before = if n == 0 { zero.clone() } else { slopes[n - 1].clone() };
            slopes.push(before + values[n].clone().scaled((2 * n + 1) as f64));
        }
        let of_u = (u.clone() * u).scaled(-1.0).shifted(1.0);
        slopes.into_iter().map(|slope| slope * of_u.clone()).collect()
    }
}

fn polynomials<V: Number>(degree: usize, u: &V) -> Vec<V> {
    let mut all = vec![u.clone().scaled(0.0).shifted(1.0)];
    if degree > 0 {
        all.push(u.clone());
    }
    for n in 1..degree {
        let [rising, falling] = [2 * n + 1, n].map(|by| by as f64 / (n + 1) as f64);
        all.push((u.clone() * all[n].clone()).scaled(rising) - all[n - 1].clone().scaled(falling));
    }
    all
}
