//! Networks in int8 with inputs and outputs in f32, as a caller runs them.

use std::path::Path as FilePath;

use anyhow::{Context, Result};
use burn::module::Param;
use burn::nn::conv::Conv2dConfig;
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_conv::{Activation, Conv2d, LayerPath};
use updraft_quant::slices::Pooling;
use updraft_quant::{Calibration, Graph, Quantization, QuantizedModel, Window};

use crate::formula;
use crate::problem::int8_run::InBytes;
use crate::problem::{Arithmetic, Outputs, Problem, Repeat, Site, Task, Work, widened};
use crate::strategy::{FLOATS, Kernels};

/// A network and how many samples run at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Int8Network {
    pub(crate) shape: Shape,
    pub(crate) batch: usize,
}

/// The networks, whose weights are numbers by formula and whose biases are not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "network", rename_all = "snake_case")]
pub(crate) enum Shape {
    /// A stem and four residual blocks of two 3×3 convolutions, the mean of the image, ten answers.
    Residual { channels: usize, side: usize },
    /// Two hidden layers and ten answers.
    Perceptron { inputs: usize, hidden: usize },
}

pub(crate) const ANSWERS: usize = 10;
const BLOCKS: usize = 4;
impl Shape {
    /// Its part of an entry's name.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Residual { channels, side } => format!("residual-{channels}ch-{side}px"),
            Self::Perceptron { inputs, hidden } => {
                format!("perceptron-{inputs}-{hidden}-{hidden}-{ANSWERS}")
            }
        }
    }
}

/// Samples of the calibration.
const CALIBRATION: usize = 8;
/// What peers read.
const FILE: &str = "model.onnx";

/// A layer's weights and biases.
struct Layer {
    name: String,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Int8Network {
    /// The layers with weights, in order.
    fn layers(&self) -> Vec<Layer> {
        let layer = |name: String, fan_in: usize, outputs: usize| Layer {
            weights: formula::tensor(&name, fan_in * outputs, formula::weight_scale(fan_in)),
            bias: formula::tensor(&format!("{name}.bias"), outputs, 0.1),
            name,
        };
        match self.shape {
            Shape::Residual { channels, .. } => {
                let mut layers = vec![layer("stem".to_owned(), 3 * 9, channels)];
                for block in 0..BLOCKS {
                    for half in ["first", "second"] {
                        layers.push(layer(format!("{block}.{half}"), channels * 9, channels));
                    }
                }
                layers.push(layer("answers".to_owned(), channels, ANSWERS));
                layers
            }
            Shape::Perceptron { inputs, hidden } => vec![
                layer("first".to_owned(), inputs, hidden),
                layer("second".to_owned(), hidden, hidden),
                layer("answers".to_owned(), hidden, ANSWERS),
            ],
        }
    }

    /// Channels, height and width of a sample.
    const fn sample(&self) -> [usize; 3] {
        match self.shape {
            Shape::Residual { side, .. } => [3, side, side],
            Shape::Perceptron { inputs, .. } => [inputs, 1, 1],
        }
    }

    pub(crate) fn samples(&self, name: &str, count: usize) -> Vec<f32> {
        formula::tensor(name, count * self.sample().iter().product::<usize>(), 1.0)
    }

    pub(crate) fn graph(&self) -> Result<Graph> {
        let mut graph = Graph::new();
        let mut x = graph.input("image", &self.sample())?;
        let layers = self.layers();
        let (answers, hidden) = layers.split_last().context("a last layer")?;
        match self.shape {
            Shape::Residual { side, .. } => {
                let same = Window { padding: [1; 2], ..Window::new([3; 2]) };
                let (stem, blocks) = hidden.split_first().context("a stem")?;
                x = graph.convolution(&stem.name, x, same, 1, &stem.weights, &stem.bias)?;
                x = graph.rectifier("stem.relu", x);
                for pair in blocks.chunks_exact(2) {
                    let [a, b] = [&pair[0], &pair[1]];
                    let y = graph.convolution(&a.name, x, same, 1, &a.weights, &a.bias)?;
                    let y = graph.rectifier("relu", y);
                    let y = graph.convolution(&b.name, y, same, 1, &b.weights, &b.bias)?;
                    let sum = graph.add("sum", x, y)?;
                    x = graph.rectifier("relu", sum);
                }
                x = graph.pool("mean", x, Window::new([side; 2]), Pooling::MeanOfImage)?;
            }
            Shape::Perceptron { .. } => {
                for layer in hidden {
                    x = graph.linear(&layer.name, x, &layer.weights, &layer.bias)?;
                    x = graph.rectifier("relu", x);
                }
            }
        }
        graph.linear(&answers.name, x, &answers.weights, &answers.bias)?;
        Ok(graph)
    }

    fn quantized(&self, by: Quantization) -> Result<QuantizedModel> {
        let samples = self.samples("calibration", CALIBRATION);
        Ok(QuantizedModel::try_quantize(&self.graph()?, [samples], by)?)
    }
}

impl Task for Int8Network {
    fn id(&self) -> String {
        format!("quant/{}-b{}", self.shape.name(), self.batch)
    }

    fn small(&self) -> Problem {
        let shape = match self.shape {
            Shape::Residual { .. } => Shape::Residual { channels: 20, side: 9 },
            Shape::Perceptron { .. } => Shape::Perceptron { inputs: 50, hidden: 70 },
        };
        Problem::Int8Network(Self { shape, batch: 7 })
    }

    fn work(&self) -> Work {
        let products: usize = self
            .layers()
            .iter()
            .map(|layer| match self.shape {
                Shape::Residual { side, .. } if layer.name != "answers" => {
                    layer.weights.len() * side * side
                }
                _ => layer.weights.len(),
            })
            .sum();
        Work {
            operations: Some(2 * (self.batch * products) as u64),
            bytes: None,
            samples: Some(self.batch as u64),
        }
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::Int8
    }

    /// The network in f64.
    fn reference(&self) -> Result<Outputs> {
        let layers = self.layers();
        let (answers, hidden) = layers.split_last().context("a last layer")?;
        let each = self.sample().iter().product();
        let mut y = Vec::new();
        for sample in self.samples("x", self.batch).chunks_exact(each) {
            let mut x = widened(sample);
            match self.shape {
                Shape::Residual { side, .. } => {
                    let (stem, blocks) = hidden.split_first().context("a stem")?;
                    x = rectified(convolved(&x, stem, side));
                    for pair in blocks.chunks_exact(2) {
                        let y = rectified(convolved(&x, &pair[0], side));
                        let y = convolved(&y, &pair[1], side);
                        x = rectified(x.iter().zip(y).map(|(x, y)| x + y).collect());
                    }
                    let pixels = side * side;
                    x = x
                        .chunks_exact(pixels)
                        .map(|c| c.iter().sum::<f64>() / pixels as f64)
                        .collect();
                }
                Shape::Perceptron { .. } => {
                    for layer in hidden {
                        x = rectified(multiplied(&x, layer));
                    }
                }
            }
            y.extend(multiplied(&x, answers));
        }
        Ok(Outputs::from([("answer".to_owned(), y)]))
    }

    /// The error of int8 in this network; a wrong layer has a far larger one. That the integers are
    /// exact is checked separately, and by the crate's own tests.
    fn tolerance(&self) -> f64 {
        0.08
    }

    fn write_inputs(&self, folder: &FilePath) -> Result<()> {
        let path = folder.join(FILE);
        // The form with which onnxruntime is fastest.
        let by = Quantization::new(Calibration::MinMax).separate_sums();
        std::fs::write(&path, self.quantized(by)?.to_onnx()?)
            .with_context(|| format!("writing `{}`", path.display()))
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let in_floats =
            |path| Ok(Box::new(InFloats::new(self, &site.device, path)) as Box<dyn Repeat>);
        match site.kernels {
            Kernels::Burn => in_floats(LayerPath::Plain),
            Kernels::Forced(FLOATS) => in_floats(LayerPath::of(&site.device)),
            Kernels::Ours | Kernels::Forced(_) => {
                let model = self.quantized(Calibration::MinMax.into())?;
                let x = self.samples("x", self.batch);
                Ok(Box::new(InBytes::new(site, model, x, self.batch * ANSWERS)?))
            }
        }
    }
}

/// The 3×3 convolution of `[channels, side, side]` by its definition.
fn convolved(x: &[f64], layer: &Layer, side: usize) -> Vec<f64> {
    let pixels = side * side;
    let each = layer.weights.len() / layer.bias.len();
    let mut y = Vec::with_capacity(layer.bias.len() * pixels);
    for (weights, &bias) in layer.weights.chunks_exact(each).zip(&layer.bias) {
        for pixel in 0..pixels {
            let mut sum = f64::from(bias);
            for (weights, x) in weights.chunks_exact(9).zip(x.chunks_exact(pixels)) {
                for (entry, &weight) in weights.iter().enumerate() {
                    let row = (pixel / side + entry / 3).wrapping_sub(1);
                    let column = (pixel % side + entry % 3).wrapping_sub(1);
                    if row < side && column < side {
                        sum += f64::from(weight) * x[row * side + column];
                    }
                }
            }
            y.push(sum);
        }
    }
    y
}

fn multiplied(x: &[f64], layer: &Layer) -> Vec<f64> {
    let rows = layer.weights.chunks_exact(x.len()).zip(&layer.bias);
    let product =
        |weights: &[f32]| weights.iter().zip(x).map(|(&w, x)| f64::from(w) * x).sum::<f64>();
    rows.map(|(weights, &bias)| product(weights) + f64::from(bias)).collect()
}

fn rectified(x: Vec<f64>) -> Vec<f64> {
    x.into_iter().map(|x| x.max(0.0)).collect()
}

/// The same network in f32 on burn's tensors, its convolutions burn's or ours.
struct InFloats {
    shape: Shape,
    convolutions: Vec<Conv2d>,
    linears: Vec<Linear>,
    x: Tensor<4>,
    device: Device,
}

impl InFloats {
    fn new(problem: &Int8Network, device: &Device, path: LayerPath) -> Self {
        let (mut convolutions, mut linears) = (Vec::new(), Vec::new());
        let load = |values: Vec<f32>, shape: &[usize]| TensorData::new(values, shape.to_vec());
        for Layer { name, weights, bias } in problem.layers() {
            let outputs = bias.len();
            let each = weights.len() / outputs;
            let bias = Param::from_tensor(Tensor::from_data(load(bias, &[outputs]), device));
            if matches!(problem.shape, Shape::Residual { .. }) && name != "answers" {
                let config = Conv2dConfig::new([each / 9, outputs], [3, 3])
                    .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1));
                let weights = load(weights, &[outputs, each / 9, 3, 3]);
                let mut layer = Conv2d::new(&config, device);
                layer.weight = Param::from_tensor(Tensor::from_data(weights, device));
                layer.bias = Some(bias);
                convolutions.push(layer.with_path(path));
            } else {
                // burn keeps a row for each input.
                let rows = (0..each * outputs).map(|i| weights[i % outputs * each + i / outputs]);
                let weights = load(rows.collect(), &[each, outputs]);
                let mut layer = LinearConfig::new(each, outputs).init(device);
                layer.weight = Param::from_tensor(Tensor::from_data(weights, device));
                layer.bias = Some(bias);
                linears.push(layer);
            }
        }
        let [channels, height, width] = problem.sample();
        let x = problem.samples("x", problem.batch);
        let x = Tensor::from_data(load(x, &[problem.batch, channels, height, width]), device);
        Self { shape: problem.shape, convolutions, linears, x, device: device.clone() }
    }

    fn run(&self) -> Tensor<2> {
        let mut x = self.x.clone();
        if let Some((stem, blocks)) = self.convolutions.split_first() {
            x = stem.forward_activated(x, Activation::Relu);
            for pair in blocks.chunks_exact(2) {
                let y = pair[0].forward_activated(x.clone(), Activation::Relu);
                let sum = pair[1].forward(y) + x;
                x = match pair[1].path() {
                    LayerPath::Plain => relu(sum),
                    _ => updraft_conv::activate(sum, Activation::Relu),
                };
            }
        }
        let mut x = match self.shape {
            Shape::Residual { .. } => x.mean_dim(3).mean_dim(2).flatten(1, 3),
            Shape::Perceptron { .. } => x.flatten(1, 3),
        };
        for (index, layer) in self.linears.iter().enumerate() {
            x = layer.forward(x);
            if index + 1 < self.linears.len() {
                x = relu(x);
            }
        }
        x
    }
}

impl Repeat for InFloats {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.run());
        Ok(self.device.sync()?)
    }

    fn outputs(&mut self) -> Result<Outputs> {
        Ok(Outputs::from([("answer".to_owned(), super::numbers(self.run()))]))
    }
}
