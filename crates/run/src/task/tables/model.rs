//! The keys of `model`: the network that predicts the targets.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};
use updraft_data::CategoryEncoding;
use updraft_kan::Penalty;
use updraft_models::{
    Head, InteractionConfig, InteractionNet, RowFeatures, SplineNet, SplineNetConfig, TableNet,
    TableNetConfig, Trunk,
};
use updraft_quant::Graph;
use updraft_trainer::{GradientNormWeights, UncertaintyWeights};

use super::network::{Network, Sizes};
use super::splines::{DEGREE, DOMAIN, INTERVALS, OUTSIDE, spline_layer};
use super::weighting::LossWeights;
use crate::config::{ABOVE_0_IN_F32, ConfigError, Key, Keys, Settings, is_above_0_in_f32};
use crate::error::RunError;
use crate::task::penalty::{penalty_key, read_penalty};

const KIND: Key<ModelKind> = Key::new(
    "model.kind",
    "a perceptron; or `residual`, residual blocks; `interaction`, a factorization machine with attention between the features; `kan`, KAN layers",
)
.default(r#""mlp""#);
const EMBEDDING: Key<usize> = Key::new(
    "model.embedding",
    "size of a category's embedding, with `data.encoding = \"embedding\"`; except for `interaction`, at most half the number of words of the column",
)
.depends("16, of `interaction` 64")
.check("1 to 4096", |size| (1..=4096).contains(size));
const FREQUENCIES: Key<usize> = Key::new(
    "model.frequencies",
    "mlp and residual only: frequencies of the periodic embedding of each number; 0 uses the number directly",
)
.default("16")
.check("0 to 1024", |count| *count <= 1024);
const FREQUENCY_SCALE: Key<f64> = Key::new(
    "model.frequency_scale",
    "mlp and residual only, with `model.frequencies`: standard deviation of the initial frequencies",
)
.default("0.1")
.check(ABOVE_0_IN_F32, is_above_0_in_f32);
const ATTENTION_LAYERS: Key<usize> =
    Key::new("model.attention_layers", "interaction only: layers of attention")
        .default("1")
        .check("0 to 64", |layers| *layers <= 64);
const HIDDEN: Key<Hidden> = Key::new(
    "model.hidden",
    "features of each hidden layer, or of each block of `residual`: a number, or a list with one for each layer of an `mlp` or a `kan`",
)
.depends("128, of `interaction` 256, of `kan` 8")
.check("a number from 1 to 65536, or a list of at most 64 such numbers", Hidden::is_valid);
const LAYERS: Key<usize> = Key::new(
    "model.layers",
    "hidden layers, or blocks of `residual`; only if `model.hidden` is a number",
)
.depends("2, of `kan` 1")
.check("1 to 64", |layers| (1..=MOST_LAYERS).contains(layers));
const DROPOUT: Key<f64> = Key::new("model.dropout", "of hidden features; kan has none")
    .default("0.1")
    .check("at least 0 and below 1", |dropout| (0.0..1.0).contains(dropout));
const SPLINE_PENALTY: Key<Penalty> = penalty_key(
    "kan only: the penalty of its splines, added to the loss and reported as `loss-penalty`",
);

/// More layers than that are a mistake.
const MOST_LAYERS: usize = 64;

/// The keys of `model`.
pub(super) const KEYS: Keys = &[
    &KIND,
    &EMBEDDING,
    &FREQUENCIES,
    &FREQUENCY_SCALE,
    &ATTENTION_LAYERS,
    &LAYERS,
    &HIDDEN,
    &DROPOUT,
    &INTERVALS,
    &DEGREE,
    &DOMAIN,
    &OUTSIDE,
    &SPLINE_PENALTY,
];

/// The widths of hidden layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number or a list of numbers")]
enum Hidden {
    /// Of all layers.
    Same(usize),
    /// Of each.
    Each(Vec<usize>),
}

impl Hidden {
    fn is_valid(&self) -> bool {
        let is_width = |width: &usize| (1..=65_536).contains(width);
        match self {
            Self::Same(width) => is_width(width),
            Self::Each(widths) => widths.len() <= MOST_LAYERS && widths.iter().all(is_width),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModelKind {
    Mlp,
    Residual,
    Interaction,
    Kan,
}

/// The network; its features and heads depend on the data.
#[derive(Debug, Clone)]
pub(super) enum ModelPlan {
    /// Plain or residual layers.
    Trunk(TableNetConfig),
    /// A factorization machine in parallel with attention.
    Interaction(InteractionConfig),
    /// Layers of splines.
    Kan { config: SplineNetConfig, penalty: Option<Penalty> },
}

impl ModelPlan {
    /// Reads the keys of the chosen kind.
    pub(super) fn read(
        settings: &Settings,
        encoding: CategoryEncoding,
    ) -> Result<Self, ConfigError> {
        // The features of a row are only known from the data.
        let features = RowFeatures { class_counts: vec![2], numbers: 1 };
        let heads = [Head::Numbers(1)];
        let kind = settings.value(&KIND)?;
        let refused = |error: &dyn std::fmt::Display| {
            settings.refuse_given("model", &format!("a network that can be built: {error}"))
        };
        let embedding = |standard: usize| match encoding {
            CategoryEncoding::Embedding => settings.value_or(&EMBEDDING, || standard),
            // No embedding is made.
            CategoryEncoding::OneHot => Ok(standard),
        };
        match kind {
            ModelKind::Mlp | ModelKind::Residual => {
                let frequencies = settings.value(&FREQUENCIES)?;
                let mut config = TableNetConfig::new(features, heads)
                    .with_embedding(embedding(16)?)
                    .with_frequencies(frequencies)
                    .with_hidden(widths(settings, 128, 2)?)
                    .with_dropout(settings.value(&DROPOUT)?);
                if frequencies > 0 {
                    config = config.with_frequency_scale(settings.value(&FREQUENCY_SCALE)?);
                }
                if kind == ModelKind::Residual {
                    config = config.with_trunk(Trunk::Residual);
                }
                config.validate().map_err(|error| refused(&error))?;
                Ok(Self::Trunk(config))
            }
            ModelKind::Interaction => {
                let Hidden::Same(hidden) = settings.value_or(&HIDDEN, || Hidden::Same(256))? else {
                    let expected = "a number with `model.kind = \"interaction\"`, whose layers have the \
                                    same width";
                    return Err(settings.refuse_given("model.hidden", expected));
                };
                let config = InteractionConfig::new(features, heads)
                    .with_embedding(settings.value_or(&EMBEDDING, || 64)?)
                    .with_attention_layers(settings.value(&ATTENTION_LAYERS)?)
                    .with_layers(settings.value_or(&LAYERS, || 2)?)
                    .with_hidden(hidden)
                    .with_dropout(settings.value(&DROPOUT)?);
                config.validate().map_err(|error| refused(&error))?;
                Ok(Self::Interaction(config))
            }
            ModelKind::Kan => {
                let layer = spline_layer(settings)?;
                let coefficients = layer.intervals + layer.degree;
                let config = SplineNetConfig::new(features, heads)
                    .with_embedding(embedding(16)?)
                    .with_hidden(widths(settings, 8, 1)?)
                    .with_layer(layer);
                config.validate().map_err(|error| refused(&error))?;
                let penalty = read_penalty(settings, &SPLINE_PENALTY, coefficients)?;
                Ok(Self::Kan { config, penalty })
            }
        }
    }

    /// The penalty that is added to the loss.
    pub(super) const fn penalty(&self) -> Option<Penalty> {
        match self {
            Self::Kan { penalty, .. } => *penalty,
            Self::Trunk(_) | Self::Interaction(_) => None,
        }
    }

    /// The reason why the network has no int8 form; `None` if it has one.
    pub(super) const fn without_int8(&self) -> Option<&'static str> {
        match self {
            Self::Kan { .. } => Some("int8 has no splines, and `model.kind` is `kan`"),
            Self::Trunk(_) | Self::Interaction(_) => None,
        }
    }

    /// Whether the targets share layers.
    pub(super) fn has_shared_layers(&self) -> bool {
        match self {
            Self::Trunk(config) => !config.hidden.is_empty(),
            Self::Interaction(config) => config.layers > 0 || config.attention_layers > 0,
            Self::Kan { config, .. } => !config.hidden.is_empty(),
        }
    }

    /// The network for these features and heads: one arm per model.
    pub(super) fn network(&self, features: RowFeatures, heads: Vec<Head>) -> Network {
        match self.clone() {
            Self::Trunk(mut config) => {
                (config.features, config.heads) = (features, heads);
                let sizes = Sizes::new(config.inputs(), config.multiply_adds());
                Network::new(about_trunk(&config), sizes, move |device| config.init(device))
            }
            Self::Interaction(mut config) => {
                (config.features, config.heads) = (features, heads);
                let sizes = Sizes::new(config.inputs(), config.multiply_adds());
                let about = format!(
                    "interaction, vectors of {}, {} x {}",
                    config.embedding, config.layers, config.hidden
                );
                Network::new(about, sizes, move |device| config.init(device))
            }
            Self::Kan { mut config, .. } => {
                (config.features, config.heads) = (features, heads);
                let sizes = Sizes::new(config.inputs(), config.multiply_adds());
                let about = format!("kan, hidden {}", listed(&config.hidden));
                Network::new(about, sizes, move |device| config.init(device))
            }
        }
    }
}

fn about_trunk(config: &TableNetConfig) -> String {
    let kind = match config.trunk {
        Trunk::Plain => "mlp",
        Trunk::Residual => "residual",
    };
    format!("{kind}, hidden {}", listed(&config.hidden))
}

/// Widths as text, such as "16-8".
fn listed(widths: &[usize]) -> String {
    match widths {
        [] => "none".to_owned(),
        _ => widths.iter().map(usize::to_string).collect::<Vec<_>>().join("-"),
    }
}

/// The width of each hidden layer.
fn widths(settings: &Settings, width: usize, layers: usize) -> Result<Vec<usize>, ConfigError> {
    match settings.value_or(&HIDDEN, || Hidden::Same(width))? {
        Hidden::Same(width) => Ok(vec![width; settings.value_or(&LAYERS, || layers)?]),
        Hidden::Each(_) if settings.option(&LAYERS)?.is_some() => {
            let expected = "left out: `model.hidden` lists the layers";
            Err(settings.refuse_given("model.layers", expected))
        }
        Hidden::Each(widths) => Ok(widths),
    }
}

/// A network that predicts every target of rows.
pub(super) trait RowNetwork:
    Module + ModuleDisplay + std::fmt::Debug + Send + 'static
{
    /// The outputs of each head, `[rows, width]`, for classes `[rows, columns]` and numbers `[rows,
    /// numbers]`.
    fn outputs(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Vec<Tensor<2>>;

    /// What the layers of the network take, `[rows, inputs]`: embeddings of classes, and numbers or
    /// their features.
    fn embed(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Tensor<2>;

    /// The outputs of each head for what [`embed`](Self::embed) returned.
    fn outputs_of(&self, features: Tensor<2>) -> Vec<Tensor<2>>;

    /// The path of the parameters that the targets do not share.
    fn head_path(&self) -> String;
}

macro_rules! row_network {
    ($($network:ident),+) => {$(
        impl RowNetwork for $network {
            fn outputs(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Vec<Tensor<2>> {
                self.forward(classes, numbers)
            }

            fn embed(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Tensor<2> {
                Self::embed(self, classes, numbers)
            }

            fn outputs_of(&self, features: Tensor<2>) -> Vec<Tensor<2>> {
                self.forward_embedded(features)
            }

            fn head_path(&self) -> String {
                Self::head_path(self)
            }
        }
    )+};
}

row_network!(TableNet, InteractionNet, SplineNet);

/// A network with the weights of its losses, if they are not fixed.
#[derive(Module, Debug)]
pub(super) struct RowModel<N> {
    network: N,
    weights: Option<UncertaintyWeights>,
    balance: Option<GradientNormWeights>,
}

impl<N: RowNetwork> RowModel<N> {
    pub(super) fn new(network: N, weights: LossWeights) -> Self {
        let LossWeights { uncertainty, balance } = weights;
        Self { network, weights: uncertainty, balance }
    }

    /// The outputs of each head; see [`RowNetwork::outputs`].
    pub(super) fn outputs(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Vec<Tensor<2>> {
        self.network.outputs(classes, numbers)
    }

    /// What the layers of the network take; see [`RowNetwork::embed`].
    pub(super) fn embed(&self, classes: Tensor<2, Int>, numbers: Tensor<2>) -> Tensor<2> {
        self.network.embed(classes, numbers)
    }

    /// The outputs of each head for what [`embed`](Self::embed) returned.
    pub(super) fn outputs_of(&self, features: Tensor<2>) -> Vec<Tensor<2>> {
        self.network.outputs_of(features)
    }

    /// The layers behind the embeddings, for rows whose embeddings have so many numbers.
    pub(super) fn capture(&self, inputs: usize) -> Result<Graph, RunError> {
        let forward = |network: &N, features: Tensor<2>| network.outputs_of(features);
        Graph::try_capture(&self.network, [inputs], forward).map_err(RunError::model)
    }

    /// The parameters from which the weights of the losses follow, if they are learned.
    pub(super) fn log_variances(&self) -> Option<Tensor<1>> {
        self.weights.as_ref().map(UncertaintyWeights::log_variances)
    }

    /// The weights of the losses, if they follow the norms of gradients.
    pub(super) fn balance(&self) -> Option<Tensor<1>> {
        self.balance.as_ref().map(GradientNormWeights::tensor)
    }

    /// The weights of the losses, if they are not fixed.
    pub(super) fn loss_weights(&self) -> Option<Vec<f64>> {
        let learned = self.weights.as_ref().map(UncertaintyWeights::weights);
        learned.or_else(|| self.balance.as_ref().map(GradientNormWeights::weights))
    }

    /// The same with weights that follow the measured norms of gradients and the losses.
    pub(super) fn balanced(
        mut self,
        measure: impl FnOnce(&N) -> Option<(Vec<f64>, Vec<f64>)>,
    ) -> Self {
        if self.balance.is_some()
            && let Some((norms, losses)) = measure(&self.network)
        {
            self.balance = self.balance.map(|balance| balance.update(&norms, &losses));
        }
        self
    }
}
