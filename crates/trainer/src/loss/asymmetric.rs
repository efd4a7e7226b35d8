//! The asymmetric loss for many labels of which few apply.

use burn::tensor::Tensor;
use burn::tensor::activation::{log_sigmoid, sigmoid};
use serde::{Deserialize, Serialize};

use crate::error::TrainError;

/// The asymmetric loss: focuses negatives more than positives, and drops the easiest ones.
///
/// With `p = σ(x)` and `q = max(p − margin, 0)`, a label that applies costs
/// `−(1 − p)^γ₊ · ln p` and one that does not `−q^γ₋ · ln(1 − q)`.
///
/// # Source
/// Ridnik et al. 2020, arXiv:2009.14119, equations 4 to 7.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Asymmetric {
    /// Focus on labels that apply, `γ₊`, from 0 to 100.
    pub positive_focus: f64,
    /// Focus on labels that do not, `γ₋`, from 0 to 100.
    pub negative_focus: f64,
    /// Negatives below this probability are ignored; in `[0, 1)`.
    pub margin: f64,
}

/// The values of the paper's multi-label experiments.
impl Default for Asymmetric {
    fn default() -> Self {
        Self { positive_focus: 0.0, negative_focus: 4.0, margin: 0.05 }
    }
}

impl Asymmetric {
    /// Checks the ranges of all values.
    ///
    /// # Errors
    /// [`TrainError::Setting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        const FOCUS: &str = "from 0 to 100";
        // Larger exponents underflow in f32 for bases between 0 and 1.
        let is_focus = |value: f64| (0.0..=100.0).contains(&value);
        let Self { positive_focus, negative_focus, margin } = self;
        TrainError::check(&[
            ("loss.positive_focus", positive_focus, is_focus(*positive_focus), FOCUS),
            ("loss.negative_focus", negative_focus, is_focus(*negative_focus), FOCUS),
            ("loss.margin", margin, (0.0..1.0).contains(margin), "at least 0, below 1"),
        ])
    }

    /// The loss, summed over labels, the mean over samples; of shape `[1]`.
    ///
    /// # Shapes
    /// - `logits` and `targets`: `[batch, labels]`, targets 0 or 1
    ///
    /// # Panics
    /// If the shapes differ.
    #[must_use]
    pub fn forward(&self, logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        assert_eq!(logits.dims(), targets.dims(), "logits and targets have one shape");
        let missed = sigmoid(logits.clone().neg());
        let yes = power(missed, self.positive_focus) * log_sigmoid(logits.clone());
        let no = if self.margin == 0.0 {
            power(sigmoid(logits.clone()), self.negative_focus) * log_sigmoid(logits.neg())
        } else {
            let shifted = sigmoid(logits).sub_scalar(self.margin).clamp_min(0.0);
            power(shifted.clone(), self.negative_focus) * shifted.neg().add_scalar(1.0).log()
        };
        let each = targets.clone() * yes + targets.neg().add_scalar(1.0) * no;
        each.sum_dim(1).mean().neg()
    }
}

/// `base^exponent`; exactly 1 for exponent 0, and with a finite gradient at a base of 0.
fn power(base: Tensor<2>, exponent: f64) -> Tensor<2> {
    if exponent == 0.0 { base.ones_like() } else { base.clamp_min(1e-7).powf_scalar(exponent) }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, devices, gradient_check, tolerance};

    use super::*;
    use crate::loss::binary_cross_entropy;

    #[test]
    fn without_focus_or_margin_it_is_binary_cross_entropy() {
        for device in devices() {
            let logits = Tensor::<2>::from_floats([[0.3, -1.2, 4.0]], &device);
            let targets = Tensor::<2>::from_floats([[1.0, 0.0, 0.0]], &device);
            let plain = Asymmetric { positive_focus: 0.0, negative_focus: 0.0, margin: 0.0 };
            let expected = binary_cross_entropy(logits.clone(), targets.clone()).mul_scalar(3.0);
            assert_close(&plain.forward(logits, targets), &expected, tolerance::F32);
        }
    }

    #[test]
    fn the_defaults_give_the_papers_formula() {
        for device in devices() {
            let rows = [[1.5_f64, -0.7, 0.2], [-4.0, 0.0, 2.0]];
            let truth = [[1.0_f64, 0.0, 0.0], [0.0, 1.0, 0.0]];
            let mut expected = 0.0;
            for (x, t) in rows.iter().flatten().zip(truth.iter().flatten()) {
                let p = 1.0 / (1.0 + (-x).exp());
                let q = (p - 0.05_f64).max(0.0);
                expected -= if *t == 1.0 { p.ln() } else { q.powi(4) * (1.0 - q).ln() };
            }
            let narrow = |rows: [[f64; 3]; 2]| rows.map(|row| row.map(|value| value as f32));
            let logits = Tensor::<2>::from_floats(narrow(rows), &device);
            let targets = Tensor::<2>::from_floats(narrow(truth), &device);
            let found = Asymmetric::default().forward(logits, targets);
            assert_close(&found, &[expected / 2.0], tolerance::F32);
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_formula() {
        for device in devices() {
            let targets = Tensor::<2>::from_floats([[1.0, 0.0]], &device);
            gradient_check(Tensor::<2>::from_floats([[0.3, 0.8]], &device), |x| {
                let targets = targets.clone().to_device(&x.device()).cast(x.dtype());
                Asymmetric { positive_focus: 1.0, ..Asymmetric::default() }.forward(x, targets)
            });
        }
    }
}
