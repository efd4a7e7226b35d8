//! Reflectional switch activation functions.

use super::centers::{Centers, bumps};
use super::family::Family;
use super::number::Number;

/// `1 − tanh²(u)` with `u = (x − center)/width`.
///
/// # Source
/// <https://github.com/AthanasiosDelis/faster-kan>, which trains centers and width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rswaf(pub(crate) Centers);

fn switch<V: Number>(tanh: V) -> V {
    (tanh.clone() * tanh).scaled(-1.0).shifted(1.0)
}

impl Family for Rswaf {
    fn count(&self) -> usize {
        self.0.functions
    }

    fn parameters(&self) -> Vec<f64> {
        self.0.parameters()
    }

    fn values<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        bumps(&x, parameters, |u, _| switch(u.tanh()))
    }

    /// `−2·tanh(u)·(1 − tanh²(u))/width`.
    fn slopes<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V> {
        bumps(&x, parameters, |u, reciprocal| {
            let tanh = u.tanh();
            (tanh.clone() * switch(tanh) * reciprocal.clone()).scaled(-2.0)
        })
    }
}
