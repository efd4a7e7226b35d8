//! The pooled gate and the classifier as linear layers whose norm and gate weights are in their
//! weights.

use burn::nn::Linear;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use updraft_transformer::timed_linear;

use super::affine::{line_of, parameter, values};
use super::scales::Scales;
use crate::blend::Blend;
use crate::classifier::Classifier;
use crate::gate::PooledGate;
use crate::weights::Place;
use crate::wide::wide;

/// `output(relu(hidden([color, brightness, stream, relu(mix([color, brightness]))])))`.
///
/// Nothing but additions lies between the pooled gate's weights, its projection and the classifier's
/// first layer, so that their product is one layer. Streams with weights of each sample are combined
/// before it.
#[derive(Debug, Clone)]
pub(crate) struct FoldedHead {
    /// The weights of each sample, if the gate has such.
    blend: Option<Blend>,
    mix: Linear,
    hidden: Linear,
    output: Linear,
}

impl FoldedHead {
    /// Of pathways whose maps are multiplied by these factors.
    pub(crate) fn new(gate: &PooledGate, classifier: &Classifier, scales: Scales) -> Self {
        let own = classifier.hidden.weight.val();
        let on = (&own.device(), own.dtype());
        let [features, width] = own.dims();

        let [factors, summands] = line_of(&gate.norm);
        let mut mix = values(gate.mix.weight.val());
        for (input, weights) in mix.chunks_exact_mut(features).enumerate() {
            for (weight, factor) in weights.iter_mut().zip(&factors) {
                *weight *= factor / scales[input / features];
            }
        }
        let mix = Linear {
            weight: parameter(mix, [2 * features, features], on),
            bias: Some(parameter(summands, [features], on)),
        };

        let report = gate.blend().report(Place::Pooled);
        let streams = match report {
            Some(report) => {
                let pathways = [report.color / scales[0], report.brightness / scales[1]];
                pathways.into_iter().chain(report.stream).collect()
            }
            // One, which is combined before.
            None => vec![1.0],
        };
        let from_features = values(own.clone());
        let mut weights = Vec::new();
        for of_stream in streams {
            weights.extend(from_features.iter().map(|weight| of_stream * weight));
        }
        let compute = wide(own.dtype());
        let project = gate.project.weight.val().cast(compute);
        weights.extend(values(project.matmul(own.clone().cast(compute))));
        let inputs = weights.len() / width;
        let hidden = Linear {
            weight: parameter(weights, [inputs, width], on),
            bias: classifier.hidden.bias.clone(),
        };
        let blend = report.is_none().then(|| gate.blend().clone());
        Self { blend, mix, hidden, output: classifier.output.clone() }
    }

    /// Logits from the means of the joined maps and of the stream.
    pub(crate) fn forward(&self, both: Tensor<2>, stream: Option<Tensor<2>>) -> Tensor<2> {
        let mixed = relu(timed_linear(&self.mix, both.clone()));
        let combined = match &self.blend {
            Some(blend) => {
                let pathways = both.chunk(2, 1);
                let streams: Vec<_> = pathways.into_iter().chain(stream).collect();
                vec![blend.weights(&streams, |features| features).blend(streams)]
            }
            None => std::iter::once(both).chain(stream).collect(),
        };
        let features = combined.into_iter().chain([mixed]).collect();
        let hidden = relu(timed_linear(&self.hidden, Tensor::cat(features, 1)));
        timed_linear(&self.output, hidden)
    }
}
