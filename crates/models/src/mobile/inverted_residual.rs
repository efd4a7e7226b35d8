//! A block that expands channels, convolves each of them, and projects to few again.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use updraft_conv::Activation;

use super::squeeze_excitation::SqueezeExcitation;
use super::stochastic_depth::StochasticDepth;
use crate::pruning::{Selection, remaining};
use crate::quantized::{BlockConfig, ConvBlock, NormConfig, WeightBits};

/// A pointwise expansion, a depthwise convolution, squeeze and excitation if there is some, and a
/// pointwise projection without an activation; added to its input if both have one shape.
///
/// # Source
/// Sandler et al. 2018, arXiv:1801.04381, figure 4; with squeeze and excitation Tan et al. 2018,
/// arXiv:1807.11626, figure 7.
#[derive(Module, Debug)]
pub(crate) struct InvertedResidual {
    /// None where channels are not expanded.
    expand: Option<ConvBlock>,
    depthwise: ConvBlock,
    excitation: Option<SqueezeExcitation>,
    project: ConvBlock,
    /// None where the branch is never dropped.
    depth: Option<StochasticDepth>,
    is_residual: bool,
}

/// The settings of one block.
#[derive(Debug, Clone)]
pub(super) struct InvertedConfig {
    pub(super) channels: [usize; 2],
    pub(super) kernel: usize,
    pub(super) stride: usize,
    /// The width inside as a multiple of the input's.
    pub(super) expansion: usize,
    /// The fraction of the width inside that is left out, in a block that expands.
    pub(super) prune_ratio: f64,
    /// The channels between squeeze and excitation, as a divisor of the input's.
    pub(super) squeeze: Option<usize>,
    pub(super) activation: Activation,
    /// The probability that the block is skipped.
    pub(super) dropped: f64,
    pub(super) norm: NormConfig,
    pub(super) bits: Option<WeightBits>,
}

impl InvertedConfig {
    pub(super) fn init(&self, device: &Device) -> InvertedResidual {
        let Self { channels: [input, output], kernel, stride, activation, norm, bits, .. } = *self;
        let inside = match self.expansion {
            1 => input,
            expansion => remaining(input * expansion, self.prune_ratio),
        };
        let is_residual = stride == 1 && input == output;
        let block = |channels, kernel, stride, groups, activation| {
            BlockConfig { channels, kernel, stride, groups, activation, norm, bits }.init(device)
        };
        InvertedResidual {
            expand: (self.expansion != 1).then(|| block([input, inside], 1, 1, 1, activation)),
            depthwise: block([inside; 2], kernel, stride, inside, activation),
            excitation: self.squeeze.map(|divisor| {
                SqueezeExcitation::new(inside, (input / divisor).max(1), bits, device)
            }),
            project: block([inside, output], 1, 1, 1, Activation::Identity),
            depth: (is_residual && self.dropped > 0.0).then(|| StochasticDepth::new(self.dropped)),
            is_residual,
        }
    }
}

impl InvertedResidual {
    pub(crate) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let Self { expand, depthwise, excitation, project, depth, is_residual } = self;
        let residual = is_residual.then(|| x.clone());
        let inside = match expand {
            Some(expand) => expand.forward(x),
            None => x,
        };
        let inside = depthwise.forward(inside);
        let inside = match excitation {
            Some(excitation) => excitation.forward(inside),
            None => inside,
        };
        let depth = depth.as_ref().filter(|depth| depth.is_on(&inside));
        match (residual, depth) {
            (None, _) => project.forward(inside),
            (Some(residual), None) => project.forward_residual(inside, residual),
            (Some(residual), Some(depth)) => {
                project.forward_branch(inside, residual, |branch| depth.forward(branch))
            }
        }
    }

    /// Takes the parameters of a wider block, of which the channels inside stay that contribute
    /// most.
    pub(super) fn take(&mut self, from: &Self) {
        let width = self.depthwise.width();
        let moments = from.depthwise.output_moments();
        let gated = match &from.excitation {
            Some(excitation) => moments.clone().scaled(&excitation.mean_gates(&moments)),
            None => moments.clone(),
        };
        let inside = Selection::of_largest(width, &gated, &from.project.input_norms());
        if let (Some(expand), Some(from)) = (&mut self.expand, &from.expand) {
            expand.take(from, &Selection::all(from.conv.weight.lazy_shape()[1]), &inside);
        }
        self.depthwise.take_depthwise(&from.depthwise, &inside);
        if let (Some(excitation), Some(from)) = (&mut self.excitation, &from.excitation) {
            excitation.take(from, &inside.with_means(&moments.means));
        }
        self.project.take(&from.project, &inside, &Selection::all(from.project.width()));
    }

    /// Multiply-adds for an image of a size, and the size of the result.
    pub(super) fn multiply_adds(&self, size: [usize; 2]) -> (usize, [usize; 2]) {
        let (expand, size) =
            self.expand.as_ref().map_or((0, size), |expand| expand.multiply_adds(size));
        let (depthwise, size) = self.depthwise.multiply_adds(size);
        let excitation = self.excitation.as_ref().map_or(0, SqueezeExcitation::multiply_adds);
        let (project, size) = self.project.multiply_adds(size);
        (expand + depthwise + excitation + project, size)
    }
}
