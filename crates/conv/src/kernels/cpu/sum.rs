//! Weighted sums of whole tensors, and their gradients.

use updraft_simd::dispatch;

use super::norm;

dispatch! {
    /// `y = weight·x`.
    pub(crate) fn scale(_simd, weight: f32, x: &[f32], y: &mut [f32]) {
        for (&x, y) in x.iter().zip(y) {
            *y = weight * x;
        }
    }

    /// `y += weight·x`.
    pub(crate) fn add(_simd, weight: f32, x: &[f32], y: &mut [f32]) {
        for (&x, y) in x.iter().zip(y) {
            *y += weight * x;
        }
    }

    /// `Σ a·b`, lane by lane in f32, then the lanes in f64.
    pub(crate) fn dot(_simd, a: &[f32], b: &[f32]) -> f64 {
        let [sum] = norm::sums([a, b], |[a, b]| [a * b]);
        sum
    }
}
