//! ResNet-18, 34 and 50 as a user writes them with burn's layers, narrower, wholly in int8.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use updraft_quant::slices::Isa;
use updraft_quant::{Calibration, Graph, QuantizedModel, Workspace};
use updraft_testing::{devices, scattered};

const WIDTH: usize = 8;
const SIDE: usize = 32;

#[derive(Module, Debug)]
struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    fn new(channels: [usize; 2], kernel: usize, stride: usize, device: &Device) -> Self {
        let padding = kernel / 2;
        let conv = Conv2dConfig::new(channels, [kernel; 2])
            .with_stride([stride; 2])
            .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
            .with_bias(false)
            .init(device);
        Self { conv, norm: BatchNormConfig::new(channels[1]).init(device) }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(x))
    }
}

/// He et al. 2016, arXiv:1512.03385: two 3 × 3 convolutions, or three with a narrow one between.
#[derive(Module, Debug)]
struct Block {
    path: Vec<ConvNorm>,
    shortcut: Option<ConvNorm>,
}

impl Block {
    fn new(
        inputs: usize,
        width: usize,
        stride: usize,
        is_bottleneck: bool,
        device: &Device,
    ) -> Self {
        let outputs = if is_bottleneck { 4 * width } else { width };
        let path = if is_bottleneck {
            vec![
                ConvNorm::new([inputs, width], 1, 1, device),
                ConvNorm::new([width, width], 3, stride, device),
                ConvNorm::new([width, outputs], 1, 1, device),
            ]
        } else {
            vec![
                ConvNorm::new([inputs, width], 3, stride, device),
                ConvNorm::new([width, width], 3, 1, device),
            ]
        };
        let is_other = stride != 1 || inputs != outputs;
        let shortcut = is_other.then(|| ConvNorm::new([inputs, outputs], 1, stride, device));
        Self { path, shortcut }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let shortcut = match &self.shortcut {
            Some(shortcut) => shortcut.forward(x.clone()),
            None => x.clone(),
        };
        let (last, path) = self.path.split_last().expect("two layers at least");
        let y = path.iter().fold(x, |x, layer| relu(layer.forward(x)));
        relu(last.forward(y) + shortcut)
    }
}

#[derive(Module, Debug)]
struct ResNet {
    stem: ConvNorm,
    pool: MaxPool2d,
    blocks: Vec<Block>,
    mean: AdaptiveAvgPool2d,
    head: Linear,
}

impl ResNet {
    fn new(counts: [usize; 4], is_bottleneck: bool, device: &Device) -> Self {
        let (mut blocks, mut inputs) = (Vec::new(), WIDTH);
        for (stage, count) in counts.into_iter().enumerate() {
            let width = WIDTH << stage;
            for block in 0..count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(Block::new(inputs, width, stride, is_bottleneck, device));
                inputs = if is_bottleneck { 4 * width } else { width };
            }
        }
        let pool = MaxPool2dConfig::new([3, 3]).with_strides([2, 2]);
        Self {
            stem: ConvNorm::new([3, WIDTH], 7, 2, device),
            pool: pool.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(),
            blocks,
            mean: AdaptiveAvgPool2dConfig::new([1, 1]).init(),
            head: LinearConfig::new(inputs, 10).init(device),
        }
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<2> {
        let x = self.pool.forward(relu(self.stem.forward(x)));
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        self.head.forward(self.mean.forward(x).flatten(1, 3))
    }
}

#[test]
fn residual_networks_are_captured_wholly_in_int8() -> Result<(), Box<dyn std::error::Error>> {
    let device = &devices()[0];
    device.seed(1);
    let all = [([2, 2, 2, 2], false), ([3, 4, 6, 3], false), ([3, 4, 6, 3], true)];
    for (counts, is_bottleneck) in all {
        let module = ResNet::new(counts, is_bottleneck, device).valid();
        let graph = Graph::try_capture(&module, [3, SIDE, SIDE], ResNet::forward)?;
        let set = scattered(3, 8 * 3 * SIDE * SIDE);
        let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
        assert!(model.plan().is_int8(), "{counts:?}\n{}", model.plan());
        let x = Tensor::from_data(TensorData::new(set, [8, 3, SIDE, SIDE]), device);
        let right: Vec<f32> = module.forward(x.clone()).to_data().iter::<f32>().collect();
        let y: Tensor<2> = model.forward(Isa::detect(), x, &mut Workspace::new(), 1);
        let given: Vec<f32> = y.to_data().iter::<f32>().collect();
        let power = |values: &mut dyn Iterator<Item = f32>| -> f64 {
            values.map(|value| f64::from(value).powi(2)).sum()
        };
        let noise = power(&mut right.iter().zip(&given).map(|(right, given)| right - given));
        let decibels = 10.0 * (power(&mut right.iter().copied()) / noise).log10();
        assert!(decibels > 25.0, "{counts:?}, bottleneck {is_bottleneck}: {decibels} dB");
    }
    Ok(())
}
