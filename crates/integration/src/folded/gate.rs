//! A gate whose norms, and if possible weights, are part of its convolutions.

use burn::tensor::Tensor;
use updraft_conv::{Activation, Conv2d, weighted_sum};

use super::affine::{Affine, parameter};
use super::maps::Maps;
use super::scales::Scales;
use crate::blend::Blend;
use crate::classifier::pool;
use crate::gate::Gate;
use crate::weights::Place;

/// How the streams are combined.
#[derive(Debug, Clone)]
enum Combination {
    /// Added as they are: the weights are part of the convolutions around the gate.
    Added,
    /// By weights for all samples.
    Shared(Box<Tensor<1>>),
    /// By weights of each sample.
    PerSample(Box<Blend>),
}

/// The integration of the maps of a stage.
#[derive(Debug, Clone)]
pub(crate) struct FoldedGate {
    combination: Combination,
    mix: Conv2d,
    project: Conv2d,
}

impl FoldedGate {
    /// The gate of pathways whose maps are multiplied by these factors, and the factor that the
    /// stream has to be multiplied by.
    pub(crate) fn new(gate: &Gate, scales: Scales) -> (Self, f64) {
        let report = gate.blend().report(Place::Pooled);
        let stream = report.and_then(|report| report.stream);
        let (combination, of_stream) = match report {
            None => {
                assert_eq!(scales, [1.0; 2], "no factor comes from gates that weight each sample");
                (Combination::PerSample(Box::new(gate.blend().clone())), 1.0)
            }
            Some(report) => {
                let pathways = [report.color / scales[0], report.brightness / scales[1]];
                if pathways == [1.0; 2] {
                    // The factors are the weights themselves.
                    (Combination::Added, stream.unwrap_or(1.0))
                } else {
                    let own = gate.mix.conv.weight.val();
                    let all: Vec<f64> = pathways.into_iter().chain(stream).collect();
                    let count = all.len();
                    let given = parameter(all, [count], (&own.device(), own.dtype())).val();
                    (Combination::Shared(Box::new(given)), 1.0)
                }
            }
        };
        let folded = Self {
            combination,
            mix: Affine::of(&gate.mix).of_scaled(&scales).into_layer(),
            project: Affine::of(&gate.project).into_layer(),
        };
        (folded, of_stream)
    }

    /// Integrates maps, and the stream that a convolution carries into the stage.
    pub(crate) fn forward(
        &self,
        maps: &Maps,
        stream: Option<(&Conv2d, Tensor<4>)>,
        activation: Activation,
    ) -> Tensor<4> {
        let joined = maps.joined();
        let blend = match (&self.combination, stream) {
            // Both halves of the joined channels are added where they are read next.
            (Combination::Added, None) => joined.clone(),
            (Combination::Added, Some((carry, stream))) => {
                carry.forward_residual(stream, joined.clone(), Activation::Identity)
            }
            (weighted, stream) => {
                let stream = stream.map(|(carry, stream)| carry.forward(stream));
                let streams: Vec<_> = maps.apart().into_iter().chain(stream).collect();
                match weighted {
                    Combination::PerSample(blend) => blend.weights(&streams, pool).blend(streams),
                    Combination::Shared(weights) => weighted_sum(streams, (**weights).clone()),
                    Combination::Added => unreachable!("matched above"),
                }
            }
        };
        let mixed = self.mix.forward_activated(joined, Activation::Relu);
        self.project.forward_residual(mixed, blend, activation)
    }
}
