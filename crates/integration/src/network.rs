//! The dual-pathway network: stems, stages, the pooled gate and the classifier.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, assert_shape};
use updraft_conv::{Activation, ConvNormActivation, initialize_parameters};

use crate::blend::{Arriving, Weights};
use crate::brightness::Brightness;
use crate::classifier::{Classifier, pool};
use crate::config::DualPathwayConfig;
use crate::contribution::Terms;
use crate::gate::PooledGate;
use crate::residual::conv_norm;
use crate::stage::{Flow, Stage, StagePlan};
use crate::weights::{Place, PlaceWeights, StageWeights};

/// Classifies images by their colors and their brightness, integrated stage by stage.
///
/// At every integration point the streams are blended as `α·color + β·brightness + γ·stream`,
/// plus a nonlinear mix of the two pathways; the weights of the blend are a softmax over the
/// streams of that point, the same for every sample or one for each
/// ([`GateKind`](crate::GateKind)). The result, projected to the shape of the next stage, is the
/// integrated stream that this stage receives.
///
/// The network stays on the device of its parameters and computes in the dtype of its input;
/// normalizations and the softmax compute in at least f32 inside.
///
/// # Source
/// The continuous integration model of the MWNN project, with the stream between its stages
/// restored.
#[derive(Module, Debug)]
pub struct DualPathwayNet {
    pub(crate) color_stem: ConvNormActivation,
    pub(crate) brightness_stem: ConvNormActivation,
    pub(crate) stages: Vec<Stage>,
    pub(crate) gate: PooledGate,
    pub(crate) classifier: Classifier,
    #[module(skip)]
    brightness: Brightness,
}

/// The values between segments: color, brightness, and the integrated stream after the first
/// integration, each of shape `[batch, channels, height, width]`.
pub type Pathways = (Tensor<4>, Tensor<4>, Option<Tensor<4>>);

/// The values between segments, and the weights that the integrations before have applied, in their
/// order, each of shape `[batch, streams]` as in [`PlaceWeights`].
pub type PathwaysWithWeights = (Pathways, Vec<Tensor<2>>);

impl DualPathwayNet {
    pub(crate) fn new(config: &DualPathwayConfig, device: &Device) -> Self {
        let integrated = config.integrated_stages();
        let widths =
            config.depth.stages().iter().map(|(blocks, wide)| (*blocks, wide * config.channels));
        let mut input = config.stem_width();
        let mut arriving = Arriving::Nothing;
        let mut stages = Vec::new();
        for (index, (blocks, output)) in widths.enumerate() {
            let integrates = integrated.contains(&index);
            let stride = if index == 0 { 1 } else { 2 };
            let (channels, gate) = ([input, output], config.gate);
            let plan = StagePlan { blocks, channels, stride, arriving, integrates, gate };
            stages.push(Stage::new(plan, device));
            if integrates {
                arriving = Arriving::Stream;
            }
            input = output;
        }
        let stem = |channels: usize| {
            let channels = [channels, config.stem_width()];
            conv_norm(channels, 3, config.stem_stride, Activation::Relu, device)
        };
        let net = Self {
            color_stem: stem(3),
            brightness_stem: stem(1),
            stages,
            gate: PooledGate::new(input, arriving, config.gate, device),
            classifier: Classifier::new(input, config.classes, config.dropout, device),
            brightness: Brightness::new(config.brightness, config.normalization),
        };
        initialize_parameters(&net);
        net
    }

    /// Classifies images, computing their brightness.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: `[batch, classes]`, not normalized
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3, or its dtype is not that of the parameters.
    pub fn forward(&self, rgb: Tensor<4>) -> Tensor<2> {
        let (rgb, brightness, _) = self.enter(rgb);
        self.forward_pathways(rgb, brightness)
    }

    /// Classifies images whose brightness is given, for another definition of brightness than
    /// [`Brightness`].
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - `brightness`: `[batch, 1, height, width]`
    /// - returns: `[batch, classes]`, not normalized
    ///
    /// # Panics
    /// If the shapes are different, or a dtype is not that of the parameters.
    pub fn forward_pathways(&self, rgb: Tensor<4>, brightness: Tensor<4>) -> Tensor<2> {
        let [batch, _, height, width] = rgb.dims();
        assert_shape!(rgb, [_, 3, _, _]);
        assert_shape!(brightness, [batch, 1, height, width]);
        let entering = (rgb, brightness, None);
        self.leave((0..self.segments()).fold(entering, |flow, index| self.segment(index, flow)))
    }

    /// Classifies images as [`forward`](Self::forward) does, and returns the weights that each
    /// integration applied to each image, in the order of the integrations.
    ///
    /// The weights are part of the graph: a [`WeightPenalty`](crate::WeightPenalty) on them has
    /// gradients.
    ///
    /// # Shapes
    /// As [`forward`](Self::forward).
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    pub fn forward_with_weights(&self, rgb: Tensor<4>) -> (Tensor<2>, Vec<PlaceWeights>) {
        let entering = self.enter_with_weights(rgb);
        let segments = 0..self.segments();
        let flow = segments.fold(entering, |flow, index| self.segment_with_weights(index, flow));
        self.leave_with_weights(flow)
    }

    /// How many segments the network can be cut into: the stems, then each stage.
    ///
    /// [`enter`](Self::enter), every [`segment`](Self::segment) in order and
    /// [`leave`](Self::leave) are [`forward`](Self::forward): a trainer that recomputes activations
    /// keeps only the values between them.
    pub fn segments(&self) -> usize {
        1 + self.stages.len()
    }

    /// The input of the first segment: the image, its brightness, and no stream yet.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    pub fn enter(&self, rgb: Tensor<4>) -> Pathways {
        let brightness = self.brightness.forward(rgb.clone());
        (rgb, brightness, None)
    }

    /// Runs one segment.
    ///
    /// # Panics
    /// If `index` is not below [`segments`](Self::segments), or `flow` is not the result of
    /// the segment before it.
    #[must_use]
    pub fn segment(&self, index: usize, flow: Pathways) -> Pathways {
        self.run(index, flow).0
    }

    /// Classifies the result of the last segment.
    ///
    /// # Shapes
    /// - returns: `[batch, classes]`, not normalized
    pub fn leave(&self, flow: Pathways) -> Tensor<2> {
        self.classify(flow).0
    }

    /// [`enter`](Self::enter), without weights yet.
    ///
    /// # Shapes
    /// As [`enter`](Self::enter).
    pub fn enter_with_weights(&self, rgb: Tensor<4>) -> PathwaysWithWeights {
        (self.enter(rgb), Vec::new())
    }

    /// [`segment`](Self::segment), with the weights of the integration at its end, if there is one,
    /// appended to those of the segments before it.
    ///
    /// # Panics
    /// As [`segment`](Self::segment).
    #[must_use]
    pub fn segment_with_weights(
        &self,
        index: usize,
        (flow, mut weights): PathwaysWithWeights,
    ) -> PathwaysWithWeights {
        let batch = flow.0.dims()[0];
        let (flow, applied) = self.run(index, flow);
        weights.extend(applied.map(|applied| applied.per_sample(batch)));
        (flow, weights)
    }

    /// [`leave`](Self::leave), and the weights of all integrations, in their order; the last ones
    /// are those of the pooled integration.
    ///
    /// # Shapes
    /// As [`leave`](Self::leave).
    ///
    /// # Panics
    /// If the weights of an integration before are missing, as after [`segment`](Self::segment).
    pub fn leave_with_weights(
        &self,
        (flow, mut weights): PathwaysWithWeights,
    ) -> (Tensor<2>, Vec<PlaceWeights>) {
        let (logits, applied) = self.classify(flow);
        weights.push(applied.per_sample(logits.dims()[0]));
        let places = self.places();
        assert_eq!(weights.len(), places.len(), "weights of each integration");
        let weights = places.into_iter().zip(weights);
        (logits, weights.map(|(place, weights)| PlaceWeights { place, weights }).collect())
    }

    /// Where the network integrates its streams, in that order.
    pub fn places(&self) -> Vec<Place> {
        let stages = self.stages.iter().enumerate().filter(|(_, stage)| stage.gate().is_some());
        stages.map(|(index, _)| Place::Stage(index)).chain([Place::Pooled]).collect()
    }

    /// The weights that each integration applies to every sample, in the order of the integrations.
    ///
    /// Computed by the code that applies them, before their rounding to the dtype of the
    /// activations. Empty with adaptive gates, whose weights depend on the sample:
    /// [`forward_with_weights`](Self::forward_with_weights) returns those.
    pub fn weights(&self) -> Vec<StageWeights> {
        let stages = self.stages.iter().enumerate();
        stages
            .filter_map(|(index, stage)| stage.gate()?.blend().report(Place::Stage(index)))
            .chain(self.gate.blend().report(Place::Pooled))
            .collect()
    }

    /// The number of learned parameters, without running statistics.
    pub fn parameter_count(&self) -> usize {
        let mut count = CountLearned { name: String::new(), learned: 0 };
        self.visit(&mut count);
        count.learned
    }

    /// The logits, and what each integration adds up, of the network as evaluated.
    pub(crate) fn logits_and_terms(&self, rgb: Tensor<4>) -> (Tensor<2>, Vec<(Place, Terms)>) {
        assert_shape!(rgb, [_, 3, _, _]);
        let net = self.valid();
        let entering = net.enter(rgb.without_autodiff());
        let (color, brightness, stream) = net.segment(0, entering);
        let mut flow = Flow { color, brightness, stream };
        let mut terms = Vec::new();
        for (index, stage) in net.stages.iter().enumerate() {
            let (next, found) = stage.terms(flow);
            terms.extend(found.map(|found| (Place::Stage(index), found)));
            flow = next;
        }
        let Flow { color, brightness, stream } = flow;
        let (features, pooled) = net.gate.terms(pool(color), pool(brightness), stream.map(pool));
        terms.push((Place::Pooled, pooled));
        (net.classifier.forward(features), terms)
    }

    /// One segment, and the weights of its integration, if there is one.
    fn run(
        &self,
        index: usize,
        (color, brightness, stream): Pathways,
    ) -> (Pathways, Option<Weights>) {
        let Some(stage) = index.checked_sub(1) else {
            let color = self.color_stem.forward(color);
            return ((color, self.brightness_stem.forward(brightness), None), None);
        };
        let (flow, weights) = self.stages[stage].forward(Flow { color, brightness, stream });
        ((flow.color, flow.brightness, flow.stream), weights)
    }

    /// The logits, and the weights of the pooled integration.
    fn classify(&self, (color, brightness, stream): Pathways) -> (Tensor<2>, Weights) {
        let (features, weights) =
            self.gate.forward(pool(color), pool(brightness), stream.map(pool));
        (self.classifier.forward(features), weights)
    }

    pub(crate) fn stem_stride(&self) -> usize {
        self.color_stem.conv.stride[0]
    }

    /// How the network computes the brightness of its input.
    pub fn brightness(&self) -> Brightness {
        self.brightness
    }
}

struct CountLearned {
    name: String,
    learned: usize,
}

impl ModuleVisitor for CountLearned {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.name = name.to_string();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !self.name.starts_with("running_") {
            self.learned += param.lazy_shape().num_elements();
        }
    }
}
