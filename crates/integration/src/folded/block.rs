//! Residual blocks whose norms are part of their convolutions.

use burn::tensor::Tensor;
use updraft_conv::{Activation, Conv2d};

use super::affine::Affine;
use super::maps::Maps;
use crate::residual::Residual;

/// `relu(second(relu(first(x))) + shortcut(x))`; the shortcut is the identity if there is none.
#[derive(Debug, Clone)]
pub(crate) struct FoldedBlock<C = Conv2d> {
    first: C,
    second: C,
    shortcut: Option<C>,
}

impl FoldedBlock<Affine> {
    /// A block of maps that are multiplied by the factor before it and have the factor after it
    /// behind it.
    ///
    /// # Panics
    /// If the factors differ around an identity.
    pub(crate) fn of(block: &Residual, [before, after]: [f64; 2]) -> Self {
        let is_possible = block.shortcut.is_some() || before == after;
        assert!(is_possible, "an identity keeps the factor {before}, not {after}");
        let shortcut = block.shortcut.as_ref();
        Self {
            first: Affine::of(&block.first).of_scaled(&[before]),
            second: Affine::of(&block.second).times(after),
            shortcut: shortcut.map(|it| Affine::of(it).of_scaled(&[before]).times(after)),
        }
    }

    /// The blocks of both pathways in one of two groups.
    pub(crate) fn beside(self, other: Self) -> Self {
        Self {
            first: self.first.beside(other.first),
            second: self.second.beside(other.second),
            shortcut: self.shortcut.zip(other.shortcut).map(|(own, other)| own.beside(other)),
        }
    }

    pub(crate) fn into_layers(self) -> FoldedBlock {
        let Self { first, second, shortcut } = self;
        let [first, second] = [first, second].map(Affine::into_layer);
        FoldedBlock { first, second, shortcut: shortcut.map(Affine::into_layer) }
    }
}

impl FoldedBlock {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let shortcut = match &self.shortcut {
            Some(shortcut) => shortcut.forward(x.clone()),
            None => x.clone(),
        };
        let hidden = self.first.forward_activated(x, Activation::Relu);
        self.second.forward_residual(hidden, shortcut, Activation::Relu)
    }
}

/// The blocks of a stage.
#[derive(Debug, Clone)]
pub(crate) enum Blocks {
    /// Those of color, then those of brightness.
    Apart([Vec<FoldedBlock>; 2]),
    /// Those of both in two groups.
    Joined(Vec<FoldedBlock>),
}

impl Blocks {
    pub(crate) fn forward(&self, maps: &Maps) -> Maps {
        let run = |blocks: &[FoldedBlock], maps: Tensor<4>| {
            blocks.iter().fold(maps, |maps, block| block.forward(maps))
        };
        match self {
            Self::Apart([of_color, of_brightness]) => {
                let [color, brightness] = maps.apart();
                Maps::Apart([run(of_color, color), run(of_brightness, brightness)])
            }
            Self::Joined(blocks) => Maps::Joined(run(blocks, maps.joined())),
        }
    }
}
