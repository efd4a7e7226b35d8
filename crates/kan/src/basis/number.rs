//! The arithmetic of formulas, on single numbers and on tensors of them.

use std::ops::{Add, Mul, Sub};

/// The type that the formulas of a [`Family`](super::family::Family) are computed on.
///
/// On tensors the operations broadcast: a parameter may be smaller than the input.
pub(crate) trait Number:
    Clone + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// The product with a constant.
    fn scaled(self, by: f64) -> Self;
    /// The sum with a constant.
    fn shifted(self, by: f64) -> Self;
    /// `eˣ`.
    fn exp(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The sine.
    fn sin(self) -> Self;
    /// The cosine.
    fn cos(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// −1, 0 or 1, without a gradient.
    fn sign(self) -> Self;
    /// `1/x`.
    fn recip(self) -> Self;
    /// The number clamped to `−limit` and `limit`; NaN stays NaN.
    fn within(self, limit: f64) -> Self;
}

impl Number for f64 {
    fn scaled(self, by: f64) -> Self {
        self * by
    }

    fn shifted(self, by: f64) -> Self {
        self + by
    }

    fn exp(self) -> Self {
        self.exp()
    }

    fn tanh(self) -> Self {
        self.tanh()
    }

    fn sin(self) -> Self {
        self.sin()
    }

    fn cos(self) -> Self {
        self.cos()
    }

    fn abs(self) -> Self {
        self.abs()
    }

    fn sign(self) -> Self {
        if self == 0.0 || self.is_nan() { self } else { self.signum() }
    }

    fn recip(self) -> Self {
        1.0 / self
    }

    fn within(self, limit: f64) -> Self {
        self.clamp(-limit, limit)
    }
}
