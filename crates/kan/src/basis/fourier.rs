//! Cosines and sines.

use super::family::Family;
use super::number::Number;

/// `cos(kx)` and `sin(kx)` for `k` from 1 to `frequencies`; an infinite input gives NaN.
///
/// # Source
/// Xu et al. 2024, arXiv:2406.01034, equation 5.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fourier {
    /// The highest frequency.
    pub(crate) frequencies: usize,
}

impl Fourier {
    fn each<V: Number>(&self, x: &V, pair: impl Fn(V, f64) -> [V; 2]) -> Vec<V> {
        let of = |k: usize| pair(x.clone().scaled(k as f64), k as f64);
        (1..=self.frequencies).flat_map(of).collect()
    }
}

impl Family for Fourier {
    fn count(&self) -> usize {
        2 * self.frequencies
    }

    fn parameters(&self) -> Vec<f64> {
        Vec::new()
    }

    fn values<V: Number>(&self, x: V, _: &[V]) -> Vec<V> {
        self.each(&x, |angle, _| [angle.clone().cos(), angle.sin()])
    }

    fn slopes<V: Number>(&self, x: V, _: &[V]) -> Vec<V> {
        self.each(&x, |angle, k| [angle.clone().sin().scaled(-k), angle.cos().scaled(k)])
    }
}
