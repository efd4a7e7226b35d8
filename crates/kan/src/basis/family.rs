//! The trait of the functions of a basis.

use super::number::Number;

/// Functions of one number, in closed form.
///
/// Some have parameters: centers and a width, or coefficients of polynomials. A layer keeps them
/// for each group of its inputs, and may train them.
pub(crate) trait Family {
    /// How many functions there are.
    fn count(&self) -> usize;

    /// The initial parameters.
    fn parameters(&self) -> Vec<f64>;

    /// The value of each function at `x`.
    fn values<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V>;

    /// The derivative of each function at `x`.
    fn slopes<V: Number>(&self, x: V, parameters: &[V]) -> Vec<V>;
}
