//! A stage whose norms, and if possible gate weights, are part of its convolutions.

use burn::tensor::Tensor;
use updraft_conv::{Activation, Conv2d};

use super::affine::Affine;
use super::block::{Blocks, FoldedBlock};
use super::gate::FoldedGate;
use super::maps::Maps;
use super::options::FoldOptions;
use super::scales::Scales;
use crate::stage::Stage;

/// The place of a stage in the network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StagePlace {
    /// The factors of the maps before it and behind it.
    pub(crate) scales: [Scales; 2],
    /// Whether another stage follows, which rectifies the stream.
    pub(crate) is_followed: bool,
}

/// A stage in the form for inference.
#[derive(Debug, Clone)]
pub(crate) struct FoldedStage {
    blocks: Blocks,
    carry: Option<Conv2d>,
    gate: Option<FoldedGate>,
    /// What follows the stream: the next stage's rectifier.
    activation: Activation,
}

impl FoldedStage {
    pub(crate) fn new(stage: &Stage, place: StagePlace, options: FoldOptions) -> Self {
        let StagePlace { scales: [before, after], is_followed } = place;
        let pathways = [&stage.color, &stage.brightness];
        let [color, brightness] = [0, 1].map(|pathway| {
            let blocks = pathways[pathway].iter().enumerate();
            let blocks = blocks.map(|(at, block)| {
                let entering = if at == 0 { before } else { after };
                FoldedBlock::of(block, [entering[pathway], after[pathway]])
            });
            blocks.collect::<Vec<_>>()
        });
        let blocks = if options.grouped {
            let both = color.into_iter().zip(brightness);
            Blocks::Joined(both.map(|(a, b)| a.beside(b).into_layers()).collect())
        } else {
            let layers =
                |blocks: Vec<_>| blocks.into_iter().map(FoldedBlock::into_layers).collect();
            Blocks::Apart([color, brightness].map(layers))
        };
        let gate = stage.gate().map(|gate| FoldedGate::new(gate, after));
        let of_stream = gate.as_ref().map_or(1.0, |(_, of_stream)| *of_stream);
        let carry = stage.carry.as_ref();
        Self {
            blocks,
            carry: carry.map(|it| Affine::of(&it.project).times(of_stream).into_layer()),
            gate: gate.map(|(gate, _)| gate),
            activation: if is_followed { Activation::Relu } else { Activation::Identity },
        }
    }

    /// The maps and the stream, rectified if another stage follows, from those of the stage before.
    pub(crate) fn forward(
        &self,
        maps: &Maps,
        stream: Option<Tensor<4>>,
    ) -> (Maps, Option<Tensor<4>>) {
        let maps = self.blocks.forward(maps);
        let carried = self.carry.as_ref().zip(stream);
        let stream = match &self.gate {
            Some(gate) => Some(gate.forward(&maps, carried, self.activation)),
            None => carried.map(|(carry, stream)| carry.forward_activated(stream, self.activation)),
        };
        (maps, stream)
    }
}
