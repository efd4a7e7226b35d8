//! The layers of [`Int8Layer`] in f32 on burn's tensors, with our operations where there are some.

use anyhow::Result;
use burn::nn::PaddingConfig2d;
use burn::nn::pool::{AvgPool2dConfig, MaxPool2dConfig};
use burn::tensor::activation::{hard_swish, sigmoid};
use burn::tensor::module::interpolate;
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions, InterpolateMode, InterpolateOptions};
use burn::tensor::{Device, Tensor, TensorData};
use updraft_conv::{Activation, Alignment, AvgPool2d, MaxPool2d};
use updraft_quant::ActivationScheme;

use super::{Int8Layer, LayerKind};
use crate::problem::{Outputs, Repeat, numbers};

/// The layer, on the numbers that the codes stand for; they leave their eight bits before the clock
/// runs.
pub(super) struct InFloats {
    layer: Layer,
    x: Vec<Tensor<4>>,
    output: ActivationScheme,
    device: Device,
}

impl InFloats {
    pub(super) fn new(problem: &Int8Layer, device: &Device) -> Result<Self> {
        let Int8Layer { batch, channels: [inputs, outputs], side, .. } = *problem;
        let scheme = Int8Layer::input()?;
        let load = |codes: Vec<u8>| {
            let values: Vec<f32> = codes.into_iter().map(|code| scheme.real(code)).collect();
            let x = TensorData::new(values, [batch, side, side, inputs]);
            // In the order of burn's layers, also in memory.
            let x = Tensor::<4>::from_data(x, device).permute([0, 3, 1, 2]);
            Tensor::from_data(x.into_data(), device)
        };
        let has_weights = matches!(
            problem.layer,
            LayerKind::Convolution | LayerKind::Linear | LayerKind::Transposed
        );
        let parameters = has_weights.then(|| {
            let kernel = problem.kernel;
            let shape = match problem.layer {
                LayerKind::Transposed => [inputs, outputs, kernel, kernel],
                _ => [outputs, inputs / problem.groups, kernel, kernel],
            };
            let weights = Tensor::<4>::from_data(TensorData::new(problem.weights(), shape), device);
            let bias = TensorData::new(problem.bias(), [outputs]);
            (weights, Tensor::<1>::from_data(bias, device))
        });
        Ok(Self {
            layer: layer(problem, parameters),
            x: problem.codes().into_iter().map(load).collect(),
            output: problem.output()?,
            device: device.clone(),
        })
    }
}

/// A layer of one or two tensors.
type Layer = Box<dyn Fn(&[Tensor<4>]) -> Tensor<4>>;

fn layer(problem: &Int8Layer, parameters: Option<(Tensor<4>, Tensor<1>)>) -> Layer {
    let Int8Layer { layer, side, kernel, stride, groups, .. } = *problem;
    let padding = problem.padding();
    let explicit = PaddingConfig2d::Explicit(padding, padding, padding, padding);
    match (layer, parameters) {
        (LayerKind::Convolution, Some((w, b))) => {
            let options = ConvOptions::new([stride; 2], [padding; 2], [1; 2], groups);
            Box::new(move |x| {
                updraft_conv::conv2d(x[0].clone(), w.clone(), Some(b.clone()), options.clone())
            })
        }
        (LayerKind::Transposed, Some((w, b))) => {
            let options = ConvTransposeOptions::new([stride; 2], [0; 2], [0; 2], [1; 2], 1);
            Box::new(move |x| {
                let (w, b) = (w.clone(), Some(b.clone()));
                updraft_conv::conv_transpose2d(x[0].clone(), w, b, options.clone())
            })
        }
        (LayerKind::Linear, Some((w, b))) => {
            let [outputs, inputs, ..] = w.dims();
            // burn keeps a row for each input.
            let w = w.reshape([outputs, inputs]).transpose();
            let w = Tensor::<2>::from_data(w.to_data(), &w.device());
            let b = b.reshape([1, outputs]);
            Box::new(move |x| {
                let x = x[0].clone().flatten::<2>(1, 3);
                let [rows, _] = x.dims();
                (x.matmul(w.clone()) + b.clone()).reshape([rows, outputs, 1, 1])
            })
        }
        (LayerKind::AveragePool, _) => {
            let config = AvgPool2dConfig::new([kernel; 2]).with_strides([stride; 2]);
            let pool = AvgPool2d::new(config.with_padding(explicit).with_count_include_pad(false));
            Box::new(move |x| pool.forward(x[0].clone()))
        }
        (LayerKind::MaxPool, _) => {
            let config = MaxPool2dConfig::new([kernel; 2]).with_strides([stride; 2]);
            let pool = MaxPool2d::new(config.with_padding(explicit));
            Box::new(move |x| pool.forward(x[0].clone()))
        }
        (LayerKind::Mean, _) => Box::new(|x| x[0].clone().mean_dim(3).mean_dim(2)),
        (LayerKind::Add, _) => Box::new(|x| x[0].clone() + x[1].clone()),
        (LayerKind::Concatenate, _) => Box::new(|x| Tensor::cat(x.to_vec(), 1)),
        (LayerKind::Nearest, _) => {
            let options = InterpolateOptions::new(InterpolateMode::Nearest);
            Box::new(move |x| {
                interpolate(x[0].clone(), options.clone().with_output_size([2 * side; 2]))
            })
        }
        (LayerKind::Bilinear, _) => {
            Box::new(move |x| updraft_conv::resize2d(x[0].clone(), [2 * side; 2], Alignment::Edges))
        }
        (LayerKind::Silu, _) => {
            Box::new(|x| updraft_conv::activate(x[0].clone(), Activation::Silu))
        }
        (LayerKind::HardSwish, _) => Box::new(|x| hard_swish(x[0].clone())),
        (LayerKind::Sigmoid, _) => Box::new(|x| sigmoid(x[0].clone())),
        (LayerKind::Convolution | LayerKind::Linear | LayerKind::Transposed, None) => {
            unreachable!("it has parameters")
        }
    }
}

impl Repeat for InFloats {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box((self.layer)(&self.x));
        Ok(self.device.sync()?)
    }

    /// A computation in f32 has no codes; here they are compared.
    fn outputs(&mut self) -> Result<Outputs> {
        let y = numbers((self.layer)(&self.x).permute([0, 2, 3, 1]));
        let step = f64::from(self.output.scale());
        let zero = f64::from(self.output.zero_point());
        let code = |y: f64| ((y / step).round_ties_even() + zero).clamp(0.0, 255.0);
        Ok(Outputs::from([("y".to_owned(), y.into_iter().map(code).collect())]))
    }
}
