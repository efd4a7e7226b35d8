//! The keys of `model`: the network that classifies images.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use updraft_data::{DataError, ImageBatch};
use updraft_integration::{
    Depth, DualPathwayConfig, DualPathwayNet, IntegrationPoint, LumaStandard, NetworkConfigError,
    Normalization, Pathways,
};
use updraft_models::{
    SeparableConfig, SeparableConfigError, SeparableNet, WhitenedConfig, WhitenedConfigError,
    WhitenedNet,
};
use updraft_trainer::SegmentValues;

use super::data_plan::DataPlan;
use super::network::Network;
use crate::config::{ConfigError, Edit, Key, Keys, Settings};
use crate::error::RunError;

const KIND: Key<ModelKind> =
    Key::new(
    "model.kind",
    "or `separable`: depthwise-separable convolutions; or `whitened`: three stages of convolutions behind one that whitens patches of training images",
)
        .default(r#""dual-pathway""#);
const DEPTH: Key<Depth> =
    Key::new("model.depth", "dual-pathway only: two stages of one block").default(r#""shallow""#);
const CHANNELS: Key<usize> = Key::new("model.channels", "width of the first stage, or of the stem")
    .default("16")
    .check("1 to 4096", |channels| (1..=4096).contains(channels));
const STEM_STRIDE: Key<usize> =
    Key::new("model.stem_stride", "2 halves the image before the first stage")
        .default("1")
        .check("1 or 2", |stride| [1, 2].contains(stride));
const DROPOUT: Key<f64> = Key::new("model.dropout", "before each layer of the classifier")
    .default("0.0")
    .edit(Edit::Reported)
    .check("at least 0 and below 1", |share| (0.0..1.0).contains(share));
const WIDTHS: Key<[usize; 3]> = Key::new("model.widths", "whitened only: width of each stage")
    .default("[64, 256, 256]")
    .check("three widths of 1 to 4096", |widths| {
        widths.iter().all(|width| (1..=4096).contains(width))
    });
const NORM_MOMENTUM: Key<f64> = Key::new(
    "model.norm_momentum",
    "whitened only: weight of each batch in the running statistics of batch norms",
)
.default("0.4")
.edit(Edit::Reported)
.check("above 0 and at most 1", |momentum| *momentum > 0.0 && *momentum <= 1.0);
const HEAD_SCALE: Key<f64> =
    Key::new("model.head_scale", "whitened only: what the logits are multiplied by")
        .default("0.1111111111111111")
        .check("a finite number above 0", |scale| scale.is_finite() && *scale > 0.0);
const WHITENING_EPSILON: Key<f64> = Key::new(
    "model.whitening_epsilon",
    "whitened only: added to the eigenvalues of the patches, so that rare directions are amplified less",
)
.default("0.0005")
.check("a finite number above 0", |epsilon| epsilon.is_finite() && *epsilon > 0.0);
const LUMA: Key<LumaStandard> =
    Key::new("model.luma", "dual-pathway only: `bt709` or `bt601`").default(r#""bt709""#);
const POINTS: Key<Vec<IntegrationPoint>> =
    Key::new("model.integration_points", "dual-pathway only: `early`, `middle`, `late` or `all`")
        .default(r#"["all"]"#)
        .check(
            "a list of `early`, `middle` and `late`, none of them twice, or of `all` alone",
            |points| {
                let has_all = points.contains(&IntegrationPoint::All);
                let is_repeated = |at: usize| points[..at].contains(&points[at]);
                !(has_all && points.len() > 1 || (0..points.len()).any(is_repeated))
            },
        );

/// The keys of `model`.
pub(super) const KEYS: Keys = &[
    &KIND,
    &DEPTH,
    &CHANNELS,
    &STEM_STRIDE,
    &DROPOUT,
    &LUMA,
    &POINTS,
    &WIDTHS,
    &NORM_MOMENTUM,
    &HEAD_SCALE,
    &WHITENING_EPSILON,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModelKind {
    DualPathway,
    Separable,
    Whitened,
}

/// The network; its number of classes depends on the data.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelPlan {
    DualPathway(DualPathwayConfig),
    Separable(SeparableConfig),
    Whitened(WhitenedConfig),
}

impl ModelPlan {
    /// Reads the keys of the chosen kind.
    pub(super) fn read(settings: &Settings, data: &DataPlan) -> Result<Self, ConfigError> {
        // Two classes as a placeholder: the number depends on the data.
        const CLASSES: usize = 2;
        let kind = settings.value(&KIND)?;
        let plan = match kind {
            ModelKind::DualPathway => Self::DualPathway(
                DualPathwayConfig::new(CLASSES, settings.value(&CHANNELS)?)
                    .with_depth(settings.value(&DEPTH)?)
                    .with_stem_stride(settings.value(&STEM_STRIDE)?)
                    .with_dropout(settings.value(&DROPOUT)?)
                    .with_luma(settings.value(&LUMA)?)
                    .with_integration_points(settings.value(&POINTS)?)
                    .with_normalization(Normalization { mean: data.mean, std: data.std }),
            ),
            ModelKind::Separable => Self::Separable(
                SeparableConfig::new(CLASSES, settings.value(&CHANNELS)?)
                    .with_stem_stride(settings.value(&STEM_STRIDE)?)
                    .with_dropout(settings.value(&DROPOUT)?),
            ),
            ModelKind::Whitened => Self::Whitened(
                WhitenedConfig::new(CLASSES)
                    .with_widths(settings.value(&WIDTHS)?)
                    .with_norm_momentum(settings.value(&NORM_MOMENTUM)?)
                    .with_head_scale(settings.value(&HEAD_SCALE)?)
                    .with_whitening_epsilon(settings.value(&WHITENING_EPSILON)?),
            ),
        };
        let refuse = |key, error: &dyn std::fmt::Display| {
            settings.refuse_given(key, &format!("one of a network that can be built: {error}"))
        };
        match &plan {
            Self::DualPathway(config) => {
                config.validate().map_err(|error| refuse(key_of_dual(&error), &error))?;
            }
            Self::Separable(config) => {
                config.validate().map_err(|error| refuse(key_of_separable(&error), &error))?;
            }
            Self::Whitened(config) => {
                config.validate().map_err(|error| refuse(key_of_whitened(&error), &error))?;
                let (height, width) = data.size();
                for (key, side) in [("data.height", height), ("data.width", width)] {
                    let least = WhitenedConfig::MIN_SIDE;
                    if side < least {
                        let expected = format!("at least {least} for `model.kind = \"whitened\"`");
                        return Err(settings.refuse(key, side, expected));
                    }
                }
            }
        }
        Ok(plan)
    }

    /// Whether outlier channels can be added to the network.
    pub(super) fn check_outliers(&self) -> Result<(), RunError> {
        match self {
            Self::DualPathway(_) => Err(no_place_for_outliers(DualPathwayNet::KIND)),
            Self::Whitened(_) => Err(no_place_for_outliers(WhitenedNet::KIND)),
            Self::Separable(_) => Ok(()),
        }
    }

    /// The network for a number of classes: one arm per model.
    pub(super) fn network(&self, classes: usize) -> Box<dyn Network> {
        match self {
            Self::DualPathway(config) => {
                let mut config = config.clone();
                config.classes = classes;
                Box::new(move |device: &Device| config.init(device))
            }
            Self::Separable(config) => {
                let mut config = config.clone();
                config.classes = classes;
                Box::new(move |device: &Device| config.init(device))
            }
            Self::Whitened(config) => {
                let mut config = config.clone();
                config.classes = classes;
                Box::new(move |device: &Device| config.init(device))
            }
        }
    }
}

/// The key that gave the value of an error.
const fn key_of_dual(error: &NetworkConfigError) -> &'static str {
    match error {
        NetworkConfigError::Channels { .. } => "model.channels",
        NetworkConfigError::StemStride { .. } => "model.stem_stride",
        NetworkConfigError::Dropout { .. } => "model.dropout",
        NetworkConfigError::RepeatedPoint { .. } => "model.integration_points",
        NetworkConfigError::Std { .. } => "data.std",
        NetworkConfigError::Mean { .. } => "data.mean",
        _ => "model",
    }
}

/// The same for a separable network.
const fn key_of_separable(error: &SeparableConfigError) -> &'static str {
    match error {
        SeparableConfigError::Channels { .. } => "model.channels",
        SeparableConfigError::StemStride { .. } => "model.stem_stride",
        SeparableConfigError::Dropout { .. } => "model.dropout",
        _ => "model",
    }
}

/// The same for a network behind a whitening convolution.
const fn key_of_whitened(error: &WhitenedConfigError) -> &'static str {
    match error {
        WhitenedConfigError::Width { .. } => "model.widths",
        WhitenedConfigError::NormMomentum { .. } => "model.norm_momentum",
        WhitenedConfigError::HeadScale { .. } => "model.head_scale",
        WhitenedConfigError::WhiteningEpsilon { .. } => "model.whitening_epsilon",
        _ => "model",
    }
}

/// A network that classifies images.
pub(super) trait Classifier: Module + std::fmt::Debug + Send + 'static {
    /// Its name in a configuration.
    const KIND: &'static str;

    /// The number of training images that [`fit`](Self::fit) takes.
    const FITTED_IMAGES: usize = 0;

    /// The values passed between segments.
    type Flow: SegmentValues + 'static;

    /// Logits `[batch, classes]` of images `[batch, 3, height, width]`.
    fn classify(&self, images: Tensor<4>) -> Tensor<2>;

    /// The number of segments.
    fn segment_count(&self) -> usize;

    /// The input of the first segment.
    fn enter(&self, images: Tensor<4>) -> Self::Flow;

    /// Runs one segment.
    fn run_segment(&self, index: usize, flow: Self::Flow) -> Self::Flow;

    /// The logits from the last segment's result.
    fn leave(&self, flow: Self::Flow) -> Tensor<2>;

    /// Sets what a new network computes from training images, without augmentation.
    fn fit(
        self,
        images: &mut dyn Iterator<Item = Result<ImageBatch, DataError>>,
    ) -> Result<Self, DataError> {
        let _ = images;
        Ok(self)
    }

    /// Multiply-adds of the forward pass of one image.
    fn multiply_adds(&self, image: [usize; 2]) -> u64;

    /// Additional fields of an epoch.
    fn epoch_fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// The plots of these fields.
    fn curves(&self) -> Vec<(String, Vec<(String, String)>)> {
        Vec::new()
    }

    /// The same function with outlier channels scaled by a factor.
    fn with_outliers(self, factor: f32) -> Result<Self, RunError>;
}

impl Classifier for DualPathwayNet {
    const KIND: &'static str = "dual-pathway";

    type Flow = Pathways;

    fn classify(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward(images)
    }

    fn segment_count(&self) -> usize {
        self.segments()
    }

    fn enter(&self, images: Tensor<4>) -> Pathways {
        Self::enter(self, images)
    }

    fn run_segment(&self, index: usize, flow: Pathways) -> Pathways {
        self.segment(index, flow)
    }

    fn leave(&self, flow: Pathways) -> Tensor<2> {
        Self::leave(self, flow)
    }

    fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        Self::multiply_adds(self, image)
    }

    fn epoch_fields(&self) -> Vec<(&'static str, Value)> {
        let weights = serde_json::to_value(self.weights()).unwrap_or_default();
        vec![("integration_weights", weights)]
    }

    fn curves(&self) -> Vec<(String, Vec<(String, String)>)> {
        let weights = serde_json::to_value(self.weights()).unwrap_or_default();
        let places = weights.as_array().cloned().unwrap_or_default();
        let plot = |(index, place): (usize, &Value)| {
            let name = match &place["stage"] {
                Value::String(name) => name.clone(),
                stage => format!("stage {}", stage["stage"]),
            };
            let streams = ["color", "brightness", "stream"].into_iter();
            let streams = streams.filter(|stream| !place[*stream].is_null());
            let curves = streams.map(|stream| {
                (stream.to_owned(), format!("/integration_weights/{index}/{stream}"))
            });
            (format!("Integration weights as applied, {name}"), curves.collect())
        };
        places.iter().enumerate().map(plot).collect()
    }

    fn with_outliers(self, _: f32) -> Result<Self, RunError> {
        Err(no_place_for_outliers(Self::KIND))
    }
}

fn no_place_for_outliers(kind: &str) -> RunError {
    RunError::model(format!(
        "outlier channels are planted in networks of `model.kind = \"separable\"`, and this one is \
         `{kind}`; leave out --outliers"
    ))
}

impl Classifier for SeparableNet {
    const KIND: &'static str = "separable";

    type Flow = Tensor<4>;

    fn classify(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward(images)
    }

    fn segment_count(&self) -> usize {
        self.segments()
    }

    fn enter(&self, images: Tensor<4>) -> Tensor<4> {
        images
    }

    fn run_segment(&self, index: usize, flow: Tensor<4>) -> Tensor<4> {
        self.forward_segment(index, flow)
    }

    fn leave(&self, flow: Tensor<4>) -> Tensor<2> {
        self.forward_head(flow)
    }

    fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        Self::multiply_adds(self, image)
    }

    fn with_outliers(self, factor: f32) -> Result<Self, RunError> {
        self.try_with_outliers(factor).map_err(RunError::model)
    }
}

impl Classifier for WhitenedNet {
    const KIND: &'static str = "whitened";

    // The number of the paper (arXiv:2404.00498, section 3.1): 4.8 million patches of 12 numbers.
    const FITTED_IMAGES: usize = 5000;

    type Flow = Tensor<4>;

    fn classify(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward(images)
    }

    fn segment_count(&self) -> usize {
        self.segments()
    }

    fn enter(&self, images: Tensor<4>) -> Tensor<4> {
        images
    }

    fn run_segment(&self, index: usize, flow: Tensor<4>) -> Tensor<4> {
        self.forward_segment(index, flow)
    }

    fn leave(&self, flow: Tensor<4>) -> Tensor<2> {
        self.forward_head(flow)
    }

    fn fit(
        self,
        images: &mut dyn Iterator<Item = Result<ImageBatch, DataError>>,
    ) -> Result<Self, DataError> {
        let mut moments = Self::patch_moments();
        for batch in images {
            let batch = batch?;
            moments.add(batch.planes(), batch.shape());
        }
        Ok(self.with_whitening(&moments))
    }

    fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        Self::multiply_adds(self, image)
    }

    fn with_outliers(self, _: f32) -> Result<Self, RunError> {
        Err(no_place_for_outliers(Self::KIND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_in_their_order_are_the_forward_pass() {
        fn check(net: &impl Classifier) {
            let images = Tensor::ones([2, 3, 16, 16], &Device::flex());
            let flow = net.enter(images.clone());
            let flow =
                (0..net.segment_count()).fold(flow, |flow, index| net.run_segment(index, flow));
            assert!(net.leave(flow).into_data() == net.classify(images).into_data());
        }
        check(&DualPathwayConfig::new(3, 2).init(&Device::flex()));
        check(&SeparableConfig::new(3, 2).init(&Device::flex()));
        check(&WhitenedConfig::new(3).with_widths([2, 3, 4]).init(&Device::flex()));
    }

    #[test]
    fn a_network_without_a_place_for_outliers_names_one_that_has_it() {
        let net = DualPathwayConfig::new(3, 2).init(&Device::flex());
        let said = net.with_outliers(64.0).expect_err("no place").to_string();
        assert!(said.contains("`model.kind = \"separable\"`"), "{said}");
    }
}
