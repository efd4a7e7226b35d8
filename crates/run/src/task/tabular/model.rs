//! The keys of `model`: the network that predicts the target.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use updraft_kan::slices::MAX_DEGREE;
use updraft_kan::{Kan, KanConfig, KanLinearConfig, Outside, Penalty};
use updraft_models::{Perceptron, PerceptronConfig};

use super::network::Network;
use crate::config::{ConfigError, Edit, Key, Keys, Settings};

/// The largest number of intervals: more take minutes to initialize, and need more rows than tables
/// have.
const MOST_INTERVALS: usize = 4096;

const KIND: Key<ModelKind> =
    Key::new("model.kind", "or `mlp`: linear layers with SiLU between them").default(r#""kan""#);
const HIDDEN: Key<Vec<usize>> = Key::new("model.hidden", "features between the layers")
    .depends("`[8]`, of an MLP `[32, 32]`")
    .check("a list of at most 64 numbers from 1 to 65536", |hidden| {
        hidden.len() <= 64 && hidden.iter().all(|width| (1..=65_536).contains(width))
    });
const INTERVALS: Key<usize> = Key::new("model.intervals", "kan only: pieces of each spline")
    .default("5")
    .check("1 to 4096", |intervals| (1..=MOST_INTERVALS).contains(intervals));
const DEGREE: Key<usize> = Key::new("model.degree", "kan only: their degree")
    .default("3")
    .check("0 to 15", |degree| *degree <= MAX_DEGREE);
// Standardized numbers are rarely further from their mean.
const DOMAIN: Key<f32> =
    Key::new("model.domain", "kan only: splines reach so far to both sides of 0")
        .default("2.5")
        .check("a finite number above 0", |reach| reach.is_finite() && *reach > 0.0);
const OUTSIDE: Key<Outside> =
    Key::new("model.outside", "kan only: or `clamp`, `extend`, what splines are beyond")
        .default(r#""zero""#);
const PENALTY: Key<Penalty> = Key::new(
    "model.penalty",
    "kan only: a number for its splines, added to the loss and reported as `loss-penalty`",
)
.with(&[
    ("l1", "0", "weight of the splines' sizes: small splines"),
    ("entropy", "0", "weight of the entropy of their shares: few splines"),
    ("roughness", "0", "weight of squared differences of coefficients: smooth splines"),
    ("order", "2", "how often differences are taken; 2 leaves straight lines free"),
])
.edit(Edit::Reported)
.check("of weights that are finite and at least 0, one of them above 0", |penalty| {
    penalty.is_valid() && !penalty.is_zero()
});

/// The keys of `model`.
pub(super) const KEYS: Keys = &[&KIND, &HIDDEN, &INTERVALS, &DEGREE, &DOMAIN, &OUTSIDE, &PENALTY];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModelKind {
    Kan,
    Mlp,
}

/// The network; its number of inputs depends on the data.
#[derive(Debug, Clone)]
pub(super) enum ModelPlan {
    /// Layers of splines.
    Kan { hidden: Vec<usize>, layer: KanLinearConfig, penalty: Option<Penalty> },
    /// Linear layers with `SiLU` between them.
    Mlp { hidden: Vec<usize> },
}

impl ModelPlan {
    /// Reads the keys of the chosen kind.
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        match settings.value(&KIND)? {
            ModelKind::Kan => {
                let domain = settings.value(&DOMAIN)?;
                let layer = KanLinearConfig::new(1, 1)
                    .with_intervals(settings.value(&INTERVALS)?)
                    .with_degree(settings.value(&DEGREE)?)
                    .with_domain_low(-domain)
                    .with_domain_high(domain)
                    .with_outside(settings.value(&OUTSIDE)?);
                let hidden = settings.value_or(&HIDDEN, || vec![8])?;
                // One input as a placeholder: the number depends on the data.
                let config = KanConfig::new(widths(1, &hidden)).with_layer(layer.clone());
                config.validate().map_err(|error| {
                    settings.refuse_given("model", &format!("a network that can be built: {error}"))
                })?;
                Ok(Self::Kan { hidden, layer, penalty: settings.option(&PENALTY)? })
            }
            ModelKind::Mlp => {
                Ok(Self::Mlp { hidden: settings.value_or(&HIDDEN, || vec![32, 32])? })
            }
        }
    }

    /// The penalty that is added to the loss.
    pub(super) fn penalty(&self) -> Option<Penalty> {
        match self {
            Self::Kan { penalty, .. } => *penalty,
            Self::Mlp { .. } => None,
        }
    }

    /// Features from the inputs to the output.
    pub(super) fn widths(&self, inputs: usize) -> Vec<usize> {
        let (Self::Kan { hidden, .. } | Self::Mlp { hidden }) = self;
        widths(inputs, hidden)
    }

    /// The network for a number of inputs: one arm per model.
    pub(super) fn network(&self, inputs: usize) -> Box<dyn Network> {
        let widths = self.widths(inputs);
        match self {
            Self::Kan { layer, .. } => {
                let config = KanConfig::new(widths).with_layer(layer.clone());
                Box::new(move |device: &Device| config.init(device))
            }
            Self::Mlp { .. } => {
                let config = PerceptronConfig::new(widths);
                Box::new(move |device: &Device| config.init(device))
            }
        }
    }
}

fn widths(inputs: usize, hidden: &[usize]) -> Vec<usize> {
    [&[inputs], hidden, &[1]].concat()
}

/// A network that predicts numbers from the numbers of a row.
pub(super) trait Regressor: Module + std::fmt::Debug + Send + 'static {
    /// Its name in a configuration.
    const KIND: &'static str;

    /// One number per row, from `[rows, inputs]` to `[rows, 1]`.
    fn predict(&self, x: Tensor<2>) -> Tensor<2>;

    /// Multiply-adds of one row's forward pass.
    fn multiply_adds(inputs: usize, outputs: usize, model: &ModelPlan) -> u64;
}

impl Regressor for Kan {
    const KIND: &'static str = "kan";

    fn predict(&self, x: Tensor<2>) -> Tensor<2> {
        self.forward(x)
    }

    /// The non-zero basis functions and the base branch of each edge.
    fn multiply_adds(inputs: usize, outputs: usize, model: &ModelPlan) -> u64 {
        let ModelPlan::Kan { layer, .. } = model else { return 0 };
        (inputs * outputs * (layer.degree + 2)) as u64
    }
}

impl Regressor for Perceptron {
    const KIND: &'static str = "mlp";

    fn predict(&self, x: Tensor<2>) -> Tensor<2> {
        self.forward(x)
    }

    fn multiply_adds(inputs: usize, outputs: usize, _: &ModelPlan) -> u64 {
        (inputs * outputs) as u64
    }
}
