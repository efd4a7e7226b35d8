//! What a layer's splines cost beside the loss.

use burn::tensor::{FloatDType, Tensor, s};

use super::linear::KanLinear;
use super::network::Kan;

/// Below this share of a layer's size an edge counts as gone, and below this size a layer: the
/// logarithm and the quotient, and their slopes, stay finite in f32.
const LEAST: f64 = 1e-12;

/// Weights of the terms that make splines small, few and smooth.
///
/// With `c = scaler·spline` the coefficients in effect, and `s(e) = mean_j |c(e,j)|` an edge's
/// size,
///
/// ```text
/// l1·Σ_e s(e) − entropy·Σ_e p(e)·ln p(e) + roughness·Σ_e Σ_j (Δ^order c(e,j))²,  p(e) = s(e) / Σ s
/// ```
///
/// Values and gradients are finite for edges, and layers, that are zero.
///
/// # Source
/// Size and entropy: Liu et al. 2024, arXiv:2404.19756, section 2.5.1, with coefficients in the
/// place of activations, as efficient-kan has them. Roughness: Eilers and Marx, Flexible smoothing
/// with B-splines and penalties, Statistical Science 11, 1996, equation 5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalty {
    /// Of the edges' sizes: small splines.
    pub l1: f64,
    /// Of the entropy of the sizes' shares: few edges.
    pub entropy: f64,
    /// Of the squared differences of neighboring coefficients: smooth splines.
    pub roughness: f64,
    /// How often differences are taken; 2 leaves straight lines free over even knots.
    pub order: usize,
}

impl Default for Penalty {
    fn default() -> Self {
        Self { l1: 0.0, entropy: 0.0, roughness: 0.0, order: 2 }
    }
}

impl KanLinear {
    /// The layer's penalty, one number, with gradients for its coefficients and factors.
    ///
    /// Terms of weight 0 are not computed. With an order that leaves no difference there is no
    /// roughness.
    #[must_use]
    pub fn penalty(&self, penalty: &Penalty) -> Tensor<1> {
        let mut coefficients = self.spline.val();
        if let FloatDType::F16 | FloatDType::BF16 = coefficients.dtype().into() {
            coefficients = coefficients.cast(FloatDType::F32);
        }
        if let Some(scaler) = &self.scaler {
            let scaler = scaler.val().cast(FloatDType::from(coefficients.dtype()));
            coefficients = coefficients * scaler.unsqueeze_dim(1);
        }
        let mut total = Tensor::zeros([1], (&coefficients.device(), coefficients.dtype()));
        if penalty.l1 != 0.0 || penalty.entropy != 0.0 {
            let sizes: Tensor<2> = coefficients.clone().abs().mean_dim(1).squeeze_dim(1);
            if penalty.l1 != 0.0 {
                total = total + sizes.clone().sum() * penalty.l1;
            }
            if penalty.entropy != 0.0 {
                total = total + entropy(sizes) * penalty.entropy;
            }
        }
        if penalty.roughness != 0.0 && penalty.order < coefficients.dims()[1] {
            let mut differences = coefficients;
            for _ in 0..penalty.order {
                let above = differences.clone().slice(s![.., 1.., ..]);
                differences = above - differences.slice(s![.., ..-1, ..]);
            }
            total = total + (differences.clone() * differences).sum() * penalty.roughness;
        }
        total
    }
}

impl Kan {
    /// The sum of the layers' penalties, one number.
    ///
    /// # Panics
    /// If the network has no layers.
    #[must_use]
    pub fn penalty(&self, penalty: &Penalty) -> Tensor<1> {
        let of_layers = self.layers.iter().map(|layer| layer.penalty(penalty));
        of_layers.reduce(|sum, one| sum + one).expect("a network has layers")
    }
}

/// `−Σ p·ln p` of the sizes' shares `p`.
fn entropy(sizes: Tensor<2>) -> Tensor<1> {
    let sum: Tensor<1> = sizes.clone().sum().clamp_min(LEAST);
    let shares = sizes / sum.unsqueeze();
    -(shares.clone() * shares.clamp_min(LEAST).log()).sum()
}
