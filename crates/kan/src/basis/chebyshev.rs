//! Chebyshev polynomials of the first kind.

use super::family::Family;
use super::number::Number;

/// `T₀(u)` to `T_degree(u)` with `u = tanh(x)`, which maps every input to their interval.
///
/// # Source
/// Sidharth et al. 2024, arXiv:2405.07200, equations 3 to 5 and section 3.2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chebyshev {
    /// The highest degree.
    pub(crate) degree: usize,
}

impl Family for Chebyshev {
    fn count(&self) -> usize {
        self.degree + 1
    }

    fn parameters(&self) -> Vec<f64> {
        Vec::new()
    }

    /// `T_{n+1} = 2u·T_n − T_{n−1}`.
    fn values<V: Number>(&self, x: V, _: &[V]) -> Vec<V> {
        let u = x.tanh();
        let first = u.clone();
        recurrence(self.degree, &u, first)
    }

    /// `n·U_{n−1}(u)·(1 − u²)`, with the polynomials `U` of the second kind.
    fn slopes<V: Number>(&self, x: V, _: &[V]) -> Vec<V> {
        let u = x.tanh();
        let of_u = (u.clone() * u.clone()).scaled(-1.0).shifted(1.0);
        let second = recurrence(self.degree, &u, u.clone().scaled(2.0));
        let mut slopes = vec![u.scaled(0.0)];
        let above = second.into_iter().take(self.degree).zip(1_u32..);
        slopes.extend(above.map(|(value, n)| (value * of_u.clone()).scaled(f64::from(n))));
        slopes
    }
}

/// The polynomials from degree 0 on: 1, `first`, and `2u` times the one before less the one before
/// that.
fn recurrence<V: Number>(degree: usize, u: &V, first: V) -> Vec<V> {
    let mut all = vec![u.clone().scaled(0.0).shifted(1.0)];
    if degree > 0 {
        all.push(first);
    }
    for n in 1..degree {
        all.push((u.clone() * all[n].clone()).scaled(2.0) - all[n - 1].clone());
    }
    all
}
