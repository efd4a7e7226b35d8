//! The normal distribution, as the reference of Gaussian error linear units.

/// The distribution function and the density of the normal distribution at `x`, in f64.
#[must_use]
pub fn normal(x: f64) -> [f64; 2] {
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    // The series of the distribution near 0, the continued fraction of the ratio of Mills beyond.
    if x.abs() < 3.0 {
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term.abs() > 1e-18 * sum.abs() {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        return [0.5 + density * sum, density];
    }
    let ratio = (1..200).rev().fold(x.abs(), |below, k| x.abs() + f64::from(k) / below).recip();
    let tail = density * ratio;
    [if x < 0.0 { tail } else { 1.0 - tail }, density]
}
