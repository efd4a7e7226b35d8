//! Deep networks in f32 on burn's tensors, their convolutions burn's or ours.

use anyhow::Result;
use burn::module::Param;
use burn::nn::conv::Conv2dConfig;
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use updraft_conv::{Activation, Conv2d, LayerPath};

use super::layers::{self, Convolution, Parameters, answers};
use super::{ANSWERS, Int8Deep};
use crate::problem::{Outputs, Repeat, numbers};

/// A network with its images.
pub(super) struct InFloats {
    blocks: Vec<Block>,
    answers: Linear,
    x: Tensor<4>,
    path: LayerPath,
    device: Device,
}

struct Block {
    path: Vec<(Conv2d, Activation)>,
    shortcut: Shortcut,
    is_rectified: bool,
}

enum Shortcut {
    None,
    Input,
    Convolution(Box<Conv2d>),
}

impl InFloats {
    pub(super) fn new(problem: &Int8Deep, device: &Device, path: LayerPath) -> Self {
        let layer = |convolution: &Convolution| loaded(convolution, device, path);
        let mut features = 3;
        let mut blocks = Vec::new();
        for block in problem.network.blocks(problem.is_small) {
            let activation = |convolution: &Convolution| match convolution.is_rectified {
                true => Activation::Relu,
                false => Activation::Identity,
            };
            blocks.push(Block {
                path: block.path.iter().map(|each| (layer(each), activation(each))).collect(),
                shortcut: match &block.shortcut {
                    layers::Shortcut::None => Shortcut::None,
                    layers::Shortcut::Input => Shortcut::Input,
                    layers::Shortcut::Convolution(each) => {
                        Shortcut::Convolution(Box::new(layer(each)))
                    }
                },
                is_rectified: block.is_rectified,
            });
            features = block.outputs();
        }
        let Parameters { weights, bias } = answers(features);
        // burn keeps a row for each input.
        let rows =
            (0..weights.len()).map(|i| weights[i % ANSWERS * features + i / ANSWERS]).collect();
        let mut linear = LinearConfig::new(features, ANSWERS).init(device);
        linear.weight = parameter(rows, [features, ANSWERS], device);
        linear.bias = Some(parameter(bias, [ANSWERS], device));
        let shape = [problem.batch, 3, problem.side, problem.side];
        let x = TensorData::new(problem.samples("x", problem.batch), shape);
        let x = Tensor::from_data(x, device);
        Self { blocks, answers: linear, x, path, device: device.clone() }
    }

    fn run(&self) -> Tensor<2> {
        let mut x = self.x.clone();
        for block in &self.blocks {
            let mut y = x.clone();
            for (layer, activation) in &block.path {
                y = layer.forward_activated(y, *activation);
            }
            x = match &block.shortcut {
                Shortcut::None => y,
                Shortcut::Input => y + x,
                Shortcut::Convolution(shortcut) => y + shortcut.forward(x),
            };
            if block.is_rectified {
                x = match self.path {
                    LayerPath::Plain => relu(x),
                    _ => updraft_conv::activate(x, Activation::Relu),
                };
            }
        }
        self.answers.forward(x.mean_dim(3).mean_dim(2).flatten(1, 3))
    }
}

fn parameter<const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), device))
}

fn loaded(convolution: &Convolution, device: &Device, path: LayerPath) -> Conv2d {
    let Convolution { channels: [inputs, outputs], kernel, stride, groups, .. } = *convolution;
    let padding = kernel / 2;
    let config = Conv2dConfig::new([inputs, outputs], [kernel; 2])
        .with_stride([stride; 2])
        .with_groups(groups)
        .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding));
    let Parameters { weights, bias } = convolution.parameters();
    let mut layer = Conv2d::new(&config, device);
    layer.weight = parameter(weights, [outputs, inputs / groups, kernel, kernel], device);
    layer.bias = Some(parameter(bias, [outputs], device));
    layer.with_path(path)
}

impl Repeat for InFloats {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.run());
        Ok(self.device.sync()?)
    }

    fn outputs(&mut self) -> Result<Outputs> {
        Ok(Outputs::from([("answer".to_owned(), numbers(self.run()))]))
    }
}
