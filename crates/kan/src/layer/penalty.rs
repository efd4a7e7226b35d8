//! Penalties on the splines of layers.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{FloatDType, Tensor, s};
use serde::{Deserialize, Serialize};

use super::conv::{KanConv1d, KanConv2d, KanConv3d};
use super::linear::KanLinear;
use super::network::Kan;
use crate::ops::fixed_order_sum;

/// Below this fraction of a layer's size an edge counts as zero, and below this size a layer: the
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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

impl Penalty {
    /// Whether every weight is finite and at least 0.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        [self.l1, self.entropy, self.roughness].iter().all(|w| w.is_finite() && *w >= 0.0)
    }

    /// Whether no term is computed.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.l1 == 0.0 && self.entropy == 0.0 && self.roughness == 0.0
    }

    /// The sum of the penalties of all layers with splines that a module contains, one number, with
    /// gradients for their coefficients and factors; `None` if it contains none.
    ///
    /// Layers with splines are [`KanLinear`] and the convolutions
    /// [`KanConv1d`], [`KanConv2d`] and
    /// [`KanConv3d`], at any depth.
    ///
    /// # Example
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::nn::LinearConfig;
    /// use burn::tensor::Device;
    /// use updraft_kan::{KanConfig, Penalty};
    ///
    /// let device = Device::flex();
    /// let (network, penalty) = (KanConfig::new(vec![2, 5, 1]).init(&device), Penalty::default());
    /// assert!(penalty.of(&network).is_some());
    /// assert!(penalty.of(&LinearConfig::new(2, 1).init(&device)).is_none());
    /// # }
    /// ```
    #[must_use]
    pub fn of(&self, module: &impl Module) -> Option<Tensor<1>> {
        let mut layers = Layers::default();
        module.visit(&mut layers);
        let of_layers =
            layers.found.into_iter().map(|(spline, scaler)| of_layer(self, spline, scaler));
        of_layers.reduce(|sum, one| sum + one)
    }
}

/// The coefficients and the factors of all layers that a module contains.
#[derive(Default)]
struct Layers {
    /// The struct that each field on the path belongs to, and the field's name.
    path: Vec<(String, String)>,
    found: Vec<(Tensor<3>, Option<Tensor<2>>)>,
}

impl ModuleVisitor for Layers {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.push((container_type.to_owned(), name.to_owned()));
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        const KINDS: [&str; 4] =
            ["Struct:KanLinear", "Struct:KanConv1d", "Struct:KanConv2d", "Struct:KanConv3d"];
        let Some((container, field)) = self.path.last() else { return };
        if !KINDS.contains(&container.as_str()) {
            return;
        }
        // A layer's coefficients are visited before its factors.
        match (field.as_str(), param.dims().as_slice()) {
            ("spline", &[inputs, bases, outputs]) => {
                self.found.push((param.val().reshape([inputs, bases, outputs]), None));
            }
            ("scaler", &[inputs, outputs]) => {
                let (_, scaler) = self.found.last_mut().expect("coefficients come first");
                *scaler = Some(param.val().reshape([inputs, outputs]));
            }
            _ => {}
        }
    }
}

impl KanLinear {
    /// The layer's penalty, one number, with gradients for its coefficients and factors.
    ///
    /// Terms of weight 0 are not computed. With an order that leaves no difference there is no
    /// roughness.
    #[must_use]
    pub fn penalty(&self, penalty: &Penalty) -> Tensor<1> {
        of_layer(penalty, self.spline.val(), self.scaler.as_ref().map(Param::val))
    }
}

macro_rules! of_convolution {
    ($($layer:ident),*) => { $(
        impl $layer {
            /// The penalty of the convolution, one number: that of a linear layer of its patches.
            #[must_use]
            pub fn penalty(&self, penalty: &Penalty) -> Tensor<1> {
                of_layer(penalty, self.spline.val(), self.scaler.as_ref().map(Param::val))
            }
        }
    )* };
}

of_convolution!(KanConv1d, KanConv2d, KanConv3d);

fn of_layer(penalty: &Penalty, spline: Tensor<3>, scaler: Option<Tensor<2>>) -> Tensor<1> {
    let mut coefficients = spline;
    if let FloatDType::F16 | FloatDType::BF16 = coefficients.dtype().into() {
        coefficients = coefficients.cast(FloatDType::F32);
    }
    if let Some(scaler) = scaler {
        let scaler = scaler.cast(FloatDType::from(coefficients.dtype()));
        coefficients = coefficients * scaler.unsqueeze_dim(1);
    }
    let mut total = Tensor::zeros([1], (&coefficients.device(), coefficients.dtype()));
    if penalty.l1 != 0.0 || penalty.entropy != 0.0 {
        let sizes: Tensor<2> = coefficients.clone().abs().mean_dim(1).squeeze_dim(1);
        if penalty.l1 != 0.0 {
            total = total + fixed_order_sum(sizes.clone()) * penalty.l1;
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
        total = total + fixed_order_sum(differences.clone() * differences) * penalty.roughness;
    }
    total
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
    let sum: Tensor<1> = fixed_order_sum(sizes.clone()).clamp_min(LEAST);
    let shares = sizes / sum.unsqueeze();
    -fixed_order_sum(shares.clone() * shares.clamp_min(LEAST).log())
}
