//! The layers of deep networks for images of 32 × 32, with weights by formula.

use serde::{Deserialize, Serialize};

use crate::formula;

/// A network of convolutions, the mean of the image and ten answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Family {
    /// He et al. 2016, arXiv:1512.03385, with a stem of 3 × 3 for small images.
    Resnet18,
    Resnet50,
    /// Sandler et al. 2018, arXiv:1801.04381, with the strides of small images and plain rectifiers.
    Mobilenetv2,
}

/// A convolution whose windows are padded to keep the sides, but for the stride.
#[derive(Debug, Clone)]
pub(super) struct Convolution {
    pub(super) name: String,
    pub(super) channels: [usize; 2],
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) groups: usize,
    pub(super) is_rectified: bool,
}

/// What is added to a path of convolutions.
#[derive(Debug, Clone)]
pub(super) enum Shortcut {
    None,
    Input,
    Convolution(Convolution),
}

/// Convolutions one after the other, and what is added to the last.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) path: Vec<Convolution>,
    pub(super) shortcut: Shortcut,
    /// Whether the sum is rectified.
    pub(super) is_rectified: bool,
}

/// The weights and biases of a layer.
pub(super) struct Parameters {
    pub(super) weights: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

/// Expansion, channels, blocks and stride of the stages of a `MobileNetV2`.
const STAGES: [[usize; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 1],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];

impl Family {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Resnet18 => "resnet18",
            Self::Resnet50 => "resnet50",
            Self::Mobilenetv2 => "mobilenetv2",
        }
    }

    /// All blocks; a small network has one for each stage, and an eighth of the channels.
    pub(super) fn blocks(self, is_small: bool) -> Vec<Block> {
        let width = |channels: usize| if is_small { (channels / 8).max(4) } else { channels };
        let counts = |counts: [usize; 4]| if is_small { [1; 4] } else { counts };
        match self {
            Self::Resnet18 => residual(width(64), counts([2; 4]), false),
            Self::Resnet50 => residual(width(64), counts([3, 4, 6, 3]), true),
            Self::Mobilenetv2 => inverted(width, is_small),
        }
    }
}

impl Convolution {
    fn new(name: String, channels: [usize; 2], [kernel, stride]: [usize; 2]) -> Self {
        Self { name, channels, kernel, stride, groups: 1, is_rectified: true }
    }

    fn linear(self) -> Self {
        Self { is_rectified: false, ..self }
    }

    pub(super) const fn fan_in(&self) -> usize {
        self.channels[0] / self.groups * self.kernel * self.kernel
    }

    /// A rectifier halves the square of what passes, and a sum adds one to another.
    pub(super) fn parameters(&self) -> Parameters {
        let gain = if self.is_rectified { 2.0_f32.sqrt() } else { 0.5_f32.sqrt() };
        let (fan_in, outputs) = (self.fan_in(), self.channels[1]);
        let scale = gain * formula::weight_scale(fan_in);
        Parameters {
            weights: formula::tensor(&self.name, fan_in * outputs, scale),
            bias: formula::tensor(&format!("{}.bias", self.name), outputs, 0.1),
        }
    }

    /// Height and width of the result.
    pub(super) const fn output_side(&self, side: usize) -> usize {
        (side - 1) / self.stride + 1
    }
}

impl Block {
    pub(super) fn outputs(&self) -> usize {
        self.path.last().map_or(0, |last| last.channels[1])
    }

    pub(super) fn output_side(&self, side: usize) -> usize {
        self.path.iter().fold(side, |side, convolution| convolution.output_side(side))
    }
}

/// The last layer: from features to ten answers.
pub(super) fn answers(features: usize) -> Parameters {
    Parameters {
        weights: formula::tensor("answers", 10 * features, formula::weight_scale(features)),
        bias: formula::tensor("answers.bias", 10, 0.1),
    }
}

fn alone(convolution: Convolution) -> Block {
    Block { path: vec![convolution], shortcut: Shortcut::None, is_rectified: false }
}

fn residual(width: usize, counts: [usize; 4], is_bottleneck: bool) -> Vec<Block> {
    let mut blocks = vec![alone(Convolution::new("stem".to_owned(), [3, width], [3, 1]))];
    let mut inputs = width;
    for (stage, count) in counts.into_iter().enumerate() {
        let width = width << stage;
        let outputs = if is_bottleneck { 4 * width } else { width };
        for block in 0..count {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let name = |part: &str| format!("{stage}.{block}.{part}");
            let path = match is_bottleneck {
                true => vec![
                    Convolution::new(name("first"), [inputs, width], [1, 1]),
                    Convolution::new(name("second"), [width; 2], [3, stride]),
                    Convolution::new(name("third"), [width, outputs], [1, 1]).linear(),
                ],
                false => vec![
                    Convolution::new(name("first"), [inputs, width], [3, stride]),
                    Convolution::new(name("second"), [width; 2], [3, 1]).linear(),
                ],
            };
            let shortcut = match stride == 1 && inputs == outputs {
                true => Shortcut::Input,
                false => {
                    let shortcut =
                        Convolution::new(name("shortcut"), [inputs, outputs], [1, stride]);
                    Shortcut::Convolution(shortcut.linear())
                }
            };
            blocks.push(Block { path, shortcut, is_rectified: true });
            inputs = outputs;
        }
    }
    blocks
}

fn inverted(width: impl Fn(usize) -> usize, is_small: bool) -> Vec<Block> {
    let mut inputs = width(32);
    let mut blocks = vec![alone(Convolution::new("stem".to_owned(), [3, inputs], [3, 1]))];
    for (stage, [expansion, outputs, count, stride]) in STAGES.into_iter().enumerate() {
        let outputs = width(outputs);
        for block in 0..if is_small { 1 } else { count } {
            let stride = if block == 0 { stride } else { 1 };
            let wide = expansion * inputs;
            let name = |part: &str| format!("{stage}.{block}.{part}");
            let mut path = Vec::new();
            if expansion > 1 {
                path.push(Convolution::new(name("expand"), [inputs, wide], [1, 1]));
            }
            let depthwise = Convolution::new(name("depthwise"), [wide; 2], [3, stride]);
            path.push(Convolution { groups: wide, ..depthwise });
            path.push(Convolution::new(name("project"), [wide, outputs], [1, 1]).linear());
            let is_same = stride == 1 && inputs == outputs;
            let shortcut = if is_same { Shortcut::Input } else { Shortcut::None };
            blocks.push(Block { path, shortcut, is_rectified: false });
            inputs = outputs;
        }
    }
    blocks.push(alone(Convolution::new("head".to_owned(), [inputs, width(1280)], [1, 1])));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multiply_adds(family: Family) -> usize {
        let mut side = 32;
        let mut sum = 0;
        for block in family.blocks(false) {
            let before = side;
            for convolution in &block.path {
                side = convolution.output_side(side);
                sum += convolution.fan_in() * convolution.channels[1] * side * side;
            }
            if let Shortcut::Convolution(shortcut) = &block.shortcut {
                let side = shortcut.output_side(before);
                sum += shortcut.fan_in() * shortcut.channels[1] * side * side;
            }
        }
        sum
    }

    #[test]
    fn the_networks_have_the_published_sizes() {
        let weights = |family: Family| -> usize {
            let blocks = family.blocks(false);
            let shortcuts = blocks.iter().filter_map(|block| match &block.shortcut {
                Shortcut::Convolution(shortcut) => Some(shortcut),
                Shortcut::None | Shortcut::Input => None,
            });
            let all = blocks.iter().flat_map(|block| &block.path).chain(shortcuts);
            all.map(|each| each.fan_in() * each.channels[1]).sum()
        };
        // Without the norms and the answers.
        assert_eq!(weights(Family::Resnet18), 11_159_232);
        assert_eq!(weights(Family::Resnet50), 23_447_232);
        assert_eq!(weights(Family::Mobilenetv2), 2_189_760);
        assert_eq!(multiply_adds(Family::Resnet18), 555_417_600);
    }
}
