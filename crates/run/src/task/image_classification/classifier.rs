//! The trait of networks that classify images, implemented for each kind.

use std::path::Path;

use burn::module::Module;
use burn::tensor::Tensor;
use serde_json::Value;
use updraft_data::{DataError, ImageBatch};
use updraft_integration::{
    DualPathwayNet, Pathways, PlaceContributions, PlaceWeights, SinglePathwayNet,
};
use updraft_models::{EfficientNet, MobileNet, SeparableNet, VisionTransformer, WhitenedNet};
use updraft_trainer::SegmentValues;

use crate::error::RunError;
use crate::task::pretrained::load_encoder;

/// Something a network computes, with the weights of the streams of each integration so far, each
/// `[batch, streams]`.
pub(super) type WithWeights<T> = (T, Vec<Tensor<2>>);

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

    /// [`classify`](Self::classify) with the weights that each integration applied, as parts of the
    /// graph; a network that integrates nothing has none.
    fn classify_with_weights(&self, images: Tensor<4>) -> WithWeights<Tensor<2>> {
        (self.classify(images), Vec::new())
    }

    /// [`classify`](Self::classify) of a network without a graph, with what each integration did
    /// with each image.
    fn classify_with_contributions(
        &self,
        images: Tensor<4>,
    ) -> (Tensor<2>, Vec<PlaceContributions>) {
        (self.classify(images), Vec::new())
    }

    /// The number of segments.
    fn segment_count(&self) -> usize;

    /// The input of the first segment.
    fn enter(&self, images: Tensor<4>) -> Self::Flow;

    /// Runs one segment.
    fn run_segment(&self, index: usize, flow: Self::Flow) -> Self::Flow;

    /// The logits from the last segment's result.
    fn leave(&self, flow: Self::Flow) -> Tensor<2>;

    /// [`run_segment`](Self::run_segment), with the weights of its integration appended, if it has
    /// one.
    fn run_segment_with_weights(
        &self,
        index: usize,
        (flow, weights): WithWeights<Self::Flow>,
    ) -> WithWeights<Self::Flow> {
        (self.run_segment(index, flow), weights)
    }

    /// [`leave`](Self::leave), with the weights of all integrations.
    fn leave_with_weights(
        &self,
        (flow, weights): WithWeights<Self::Flow>,
    ) -> WithWeights<Tensor<2>> {
        (self.leave(flow), weights)
    }

    /// Sets the parameters of a new network that are computed from training images, without
    /// augmentation, such as the filters of a whitening convolution.
    fn fit(
        self,
        images: &mut dyn Iterator<Item = Result<ImageBatch, DataError>>,
    ) -> Result<Self, DataError> {
        let _ = images;
        Ok(self)
    }

    /// The same network with the encoder of a pretrained checkpoint; the plan refuses
    /// networks that have none.
    fn with_encoder_of(self, checkpoint: &Path) -> Result<Self, RunError> {
        let _ = checkpoint;
        Err(RunError::model(format!("a network of the kind `{}` has no encoder", Self::KIND)))
    }

    /// The same network with the parameters of a wider one, without the channels that contribute
    /// least; the plan refuses networks that have no such form.
    fn pruned_from(self, wide: &Self) -> Result<Self, RunError> {
        let _ = wide;
        Err(RunError::model(format!("a network of the kind `{}` is not pruned", Self::KIND)))
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

    /// The same function with outlier channels scaled by a factor; no network has a place for them
    /// by default.
    fn with_outliers(self, factor: f32) -> Result<Self, RunError> {
        let _ = factor;
        Err(no_place_for_outliers(Self::KIND))
    }
}

/// The methods of a network that are its own methods of another or of the same name.
macro_rules! own_methods {
    ($flow:ty, $enter:expr, $segment:ident, $leave:ident) => {
        type Flow = $flow;

        fn classify(&self, images: Tensor<4>) -> Tensor<2> {
            self.forward(images)
        }

        fn segment_count(&self) -> usize {
            self.segments()
        }

        fn enter(&self, images: Tensor<4>) -> $flow {
            $enter(self, images)
        }

        fn run_segment(&self, index: usize, flow: $flow) -> $flow {
            self.$segment(index, flow)
        }

        fn leave(&self, flow: $flow) -> Tensor<2> {
            Self::$leave(self, flow)
        }

        fn multiply_adds(&self, image: [usize; 2]) -> u64 {
            Self::multiply_adds(self, image)
        }
    };
}

impl Classifier for DualPathwayNet {
    const KIND: &'static str = "dual-pathway";

    own_methods!(Pathways, Self::enter, segment, leave);

    fn classify_with_weights(&self, images: Tensor<4>) -> WithWeights<Tensor<2>> {
        tensors(self.forward_with_weights(images))
    }

    fn classify_with_contributions(
        &self,
        images: Tensor<4>,
    ) -> (Tensor<2>, Vec<PlaceContributions>) {
        self.forward_with_contributions(images)
    }

    fn run_segment_with_weights(
        &self,
        index: usize,
        flow: WithWeights<Pathways>,
    ) -> WithWeights<Pathways> {
        self.segment_with_weights(index, flow)
    }

    fn leave_with_weights(&self, flow: WithWeights<Pathways>) -> WithWeights<Tensor<2>> {
        tensors(Self::leave_with_weights(self, flow))
    }

    /// The weights of static gates; those of adaptive gates differ between images.
    fn epoch_fields(&self) -> Vec<(&'static str, Value)> {
        let weights = self.weights();
        if weights.is_empty() {
            return Vec::new();
        }
        vec![("integration_weights", serde_json::to_value(weights).unwrap_or_default())]
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
}

/// The weights without their places, which a loss does not need.
fn tensors((logits, weights): (Tensor<2>, Vec<PlaceWeights>)) -> WithWeights<Tensor<2>> {
    (logits, weights.into_iter().map(|at| at.weights).collect())
}

pub(super) fn no_place_for_outliers(kind: &str) -> RunError {
    RunError::model(format!(
        "outlier channels are planted in networks of `model.kind = \"separable\"`, and this one is \
         `{kind}`; leave out --outliers"
    ))
}

impl Classifier for SinglePathwayNet {
    const KIND: &'static str = "single-pathway";

    own_methods!(Tensor<4>, |_: &Self, images| images, segment, leave);
}

impl Classifier for SeparableNet {
    const KIND: &'static str = "separable";

    own_methods!(Tensor<4>, |_: &Self, images| images, forward_segment, forward_head);

    fn pruned_from(self, wide: &Self) -> Result<Self, RunError> {
        Ok(Self::pruned_from(self, wide))
    }

    fn with_outliers(self, factor: f32) -> Result<Self, RunError> {
        self.try_with_outliers(factor).map_err(RunError::model)
    }
}

impl Classifier for MobileNet {
    const KIND: &'static str = "mobile-net";

    own_methods!(Tensor<4>, |_: &Self, images| images, forward_segment, forward_head);

    fn pruned_from(self, wide: &Self) -> Result<Self, RunError> {
        Ok(Self::pruned_from(self, wide))
    }
}

impl Classifier for EfficientNet {
    const KIND: &'static str = "efficient-net";

    own_methods!(Tensor<4>, |_: &Self, images| images, forward_segment, forward_head);

    fn pruned_from(self, wide: &Self) -> Result<Self, RunError> {
        Ok(Self::pruned_from(self, wide))
    }
}

impl Classifier for WhitenedNet {
    const KIND: &'static str = "whitened";

    // The number of the paper (arXiv:2404.00498, section 3.2): 4.8 million patches of 12 numbers.
    const FITTED_IMAGES: usize = 5000;

    own_methods!(Tensor<4>, |_: &Self, images| images, forward_segment, forward_head);

    fn fit(
        self,
        images: &mut dyn Iterator<Item = Result<ImageBatch, DataError>>,
    ) -> Result<Self, DataError> {
        let mut moments = Self::patch_moments();
        for batch in images {
            let batch = batch?;
            moments.add(batch.planes(), batch.shape());
        }
        if moments.patches() == 0 {
            return Err(DataError::Empty);
        }
        Ok(self.with_whitening(&moments))
    }
}

impl Classifier for VisionTransformer {
    const KIND: &'static str = "vision-transformer";

    type Flow = Tensor<3>;

    fn classify(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward(images)
    }

    fn segment_count(&self) -> usize {
        self.segments()
    }

    fn enter(&self, images: Tensor<4>) -> Tensor<3> {
        Self::enter(self, images)
    }

    fn run_segment(&self, index: usize, flow: Tensor<3>) -> Tensor<3> {
        self.forward_segment(index, flow)
    }

    fn leave(&self, flow: Tensor<3>) -> Tensor<2> {
        self.forward_head(flow)
    }

    fn with_encoder_of(self, checkpoint: &Path) -> Result<Self, RunError> {
        let encoder = load_encoder(checkpoint, self.encoder().clone())?;
        Ok(self.with_encoder(encoder))
    }

    fn multiply_adds(&self, image: [usize; 2]) -> u64 {
        Self::multiply_adds(self, &image)
    }

    fn with_outliers(self, _: f32) -> Result<Self, RunError> {
        Err(no_place_for_outliers(Self::KIND))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use updraft_integration::{DualPathwayConfig, GateKind, SinglePathwayConfig};
    use updraft_models::{
        EfficientNetConfig, EncoderConfig, MobileNetConfig, SeparableConfig,
        VisionTransformerConfig, WeightBits, WhitenedConfig,
    };

    use super::*;

    #[test]
    fn segments_in_their_order_are_the_forward_pass() {
        let _alone = updraft_testing::alone();
        fn check(net: &impl Classifier) {
            let images = Tensor::ones([2, 3, 16, 16], &Device::flex());
            let flow = net.enter(images.clone());
            let flow =
                (0..net.segment_count()).fold(flow, |flow, index| net.run_segment(index, flow));
            let logits = net.classify(images.clone()).into_data();
            assert!(net.leave(flow).into_data() == logits);

            let flow = (net.enter(images.clone()), Vec::new());
            let flow = (0..net.segment_count())
                .fold(flow, |flow, index| net.run_segment_with_weights(index, flow));
            let data = |weights: Vec<Tensor<2>>| -> Vec<_> {
                weights.into_iter().map(Tensor::into_data).collect()
            };
            let (left, weights) = net.leave_with_weights(flow);
            let weights = data(weights);
            let (whole, expected) = net.classify_with_weights(images.clone());
            assert!(left.into_data() == logits && whole.into_data() == logits);
            assert!(weights == data(expected));

            let (with_contributions, places) = net.classify_with_contributions(images);
            assert!(with_contributions.into_data() == logits);
            assert_eq!(places.len(), weights.len());
        }
        check(&DualPathwayConfig::new(3, 2).init(&Device::flex()));
        let adaptive = DualPathwayConfig::new(3, 2).with_gate(GateKind::Adaptive);
        check(&adaptive.init(&Device::flex()));
        let dual = DualPathwayConfig::new(3, 2);
        check(&SinglePathwayConfig::twin(&dual, [16, 16]).init(&Device::flex()));
        check(&SeparableConfig::new(3, 2).init(&Device::flex()));
        let bits = Some(WeightBits::Int4);
        check(&SeparableConfig::new(3, 2).with_quantization(bits).init(&Device::flex()));
        check(&MobileNetConfig::new(3).with_width(0.1).init(&Device::flex()));
        let efficient = EfficientNetConfig::new(3).with_factors(0.1, 0.3).with_hidden(5);
        check(&efficient.init(&Device::flex()));
        check(&WhitenedConfig::new(3).with_widths([2, 3, 4]).init(&Device::flex()));
        let encoder = EncoderConfig::new(3, &[16, 16], &[4, 4]).with_blocks(8, 2, 2);
        check(&VisionTransformerConfig::new(3, encoder).init(&Device::flex()));
    }

    #[test]
    fn a_network_without_a_place_for_outliers_names_one_that_has_it() {
        let _alone = updraft_testing::alone();
        let net = DualPathwayConfig::new(3, 2).init(&Device::flex());
        let said = net.with_outliers(64.0).expect_err("no place").to_string();
        assert!(said.contains("`model.kind = \"separable\"`"), "{said}");
    }
}
