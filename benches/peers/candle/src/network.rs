//! The dual-pathway network in burn 0.21, its parameters named as in a record of ours.

use anyhow::Result;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::{relu, softmax};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use serde_json::Value;

use crate::worker::{Named, number};
use crate::{formula, numbers};

/// The weights of the colors in the brightness: ITU-R BT.709.
const LUMA: [f32; 3] = [0.2126, 0.7152, 0.0722];

/// The shape that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) channels: usize,
    pub(crate) stem_stride: usize,
    pub(crate) classes: usize,
    pub(crate) side: usize,
}

impl Shape {
    pub(crate) fn read(network: &Value) -> Result<Self> {
        Ok(Self {
            channels: number(network, "channels")?,
            stem_stride: number(network, "stem_stride")?,
            classes: number(network, "classes")?,
            side: number(network, "side")?,
        })
    }

    /// The network with the weights that `benches/src/network.rs` gives it.
    pub(crate) fn by_formula<B: Backend>(self) -> DualPathway<B> {
        DualPathway::new(self, &Default::default()).map(&mut ByFormula(Path::default()))
    }
}

#[derive(Module, Debug)]
struct ConvNorm<B: Backend> {
    conv: Conv2d<B>,
    norm: BatchNorm<B>,
}

impl<B: Backend> ConvNorm<B> {
    fn new([input, output]: [usize; 2], kernel: usize, stride: usize, device: &B::Device) -> Self {
        let padding = PaddingConfig2d::Explicit(kernel / 2, kernel / 2, kernel / 2, kernel / 2);
        let conv = Conv2dConfig::new([input, output], [kernel, kernel])
            .with_stride([stride, stride])
            .with_padding(padding)
            .with_bias(false);
        Self { conv: conv.init(device), norm: BatchNormConfig::new(output).init(device) }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        self.norm.forward(self.conv.forward(x))
    }
}

#[derive(Module, Debug)]
struct Residual<B: Backend> {
    first: ConvNorm<B>,
    second: ConvNorm<B>,
    shortcut: Option<ConvNorm<B>>,
}

impl<B: Backend> Residual<B> {
    fn new([input, output]: [usize; 2], stride: usize, device: &B::Device) -> Self {
        let is_same = stride == 1 && input == output;
        let shortcut = (!is_same).then(|| ConvNorm::new([input, output], 1, stride, device));
        Self {
            first: ConvNorm::new([input, output], 3, stride, device),
            second: ConvNorm::new([output, output], 3, 1, device),
            shortcut,
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let shortcut = match &self.shortcut {
            Some(project) => project.forward(x.clone()),
            None => x.clone(),
        };
        relu(self.second.forward(relu(self.first.forward(x))) + shortcut)
    }
}

/// A softmax over exactly the streams that arrive.
#[derive(Module, Debug)]
struct Blend<B: Backend> {
    logits: Param<Tensor<B, 1>>,
}

impl<B: Backend> Blend<B> {
    fn new(has_stream: bool, device: &B::Device) -> Self {
        let logits = if has_stream { vec![0.5_f32, 0.5, 0.0] } else { vec![0.5, 0.5] };
        let shape = [logits.len()];
        let logits = Tensor::from_data(TensorData::new(logits, shape), device);
        Self { logits: Param::from_tensor(logits) }
    }

    fn forward<const D: usize>(&self, streams: [Option<Tensor<B, D>>; 3]) -> Tensor<B, D> {
        let weights = softmax(self.logits.val(), 0);
        let weighted = streams.into_iter().flatten().enumerate().map(|(index, stream)| {
            stream * weights.clone().slice([index..index + 1]).reshape([1; D])
        });
        weighted.reduce(|sum, stream| sum + stream).expect("two streams or three")
    }
}

#[derive(Module, Debug)]
struct Gate<B: Backend> {
    blend: Blend<B>,
    mix: ConvNorm<B>,
    project: ConvNorm<B>,
}

#[derive(Module, Debug)]
struct PooledGate<B: Backend> {
    blend: Blend<B>,
    mix: Linear<B>,
    norm: BatchNorm<B>,
    project: Linear<B>,
}

#[derive(Module, Debug)]
struct Carry<B: Backend> {
    project: ConvNorm<B>,
}

#[derive(Module, Debug)]
struct Stage<B: Backend> {
    color: Vec<Residual<B>>,
    brightness: Vec<Residual<B>>,
    carry: Option<Carry<B>>,
    gate: Gate<B>,
}

impl<B: Backend> Stage<B> {
    fn new(channels: [usize; 2], stride: usize, has_stream: bool, device: &B::Device) -> Self {
        let output = channels[1];
        let carry = || Carry { project: ConvNorm::new(channels, 3, stride, device) };
        Self {
            color: vec![Residual::new(channels, stride, device)],
            brightness: vec![Residual::new(channels, stride, device)],
            carry: has_stream.then(carry),
            gate: Gate {
                blend: Blend::new(has_stream, device),
                mix: ConvNorm::new([2 * output, output], 1, 1, device),
                project: ConvNorm::new([output, output], 1, 1, device),
            },
        }
    }

    fn forward(
        &self,
        [mut color, mut brightness]: [Tensor<B, 4>; 2],
        stream: Option<Tensor<B, 4>>,
    ) -> ([Tensor<B, 4>; 2], Tensor<B, 4>) {
        for block in &self.color {
            color = block.forward(color);
        }
        for block in &self.brightness {
            brightness = block.forward(brightness);
        }
        let carried = self.carry.as_ref().zip(stream);
        let stream = carried.map(|(carry, stream)| carry.project.forward(relu(stream)));
        let gate = &self.gate;
        let both = Tensor::cat(vec![color.clone(), brightness.clone()], 1);
        let nonlinear = gate.project.forward(relu(gate.mix.forward(both)));
        let blended = gate.blend.forward([Some(color.clone()), Some(brightness.clone()), stream]);
        ([color, brightness], blended + nonlinear)
    }
}

#[derive(Module, Debug)]
struct Classifier<B: Backend> {
    hidden: Linear<B>,
    output: Linear<B>,
}

/// Two stages of one block per pathway.
#[derive(Module, Debug)]
pub(crate) struct DualPathway<B: Backend> {
    color_stem: ConvNorm<B>,
    brightness_stem: ConvNorm<B>,
    stages: Vec<Stage<B>>,
    gate: PooledGate<B>,
    classifier: Classifier<B>,
}

impl<B: Backend> DualPathway<B> {
    fn new(shape: Shape, device: &B::Device) -> Self {
        let (narrow, wide) = (shape.channels, 2 * shape.channels);
        let linear = |inputs, outputs, bias| {
            LinearConfig::new(inputs, outputs).with_bias(bias).init(device)
        };
        Self {
            color_stem: ConvNorm::new([3, narrow], 3, shape.stem_stride, device),
            brightness_stem: ConvNorm::new([1, narrow], 3, shape.stem_stride, device),
            stages: vec![
                Stage::new([narrow, narrow], 1, false, device),
                Stage::new([narrow, wide], 2, true, device),
            ],
            gate: PooledGate {
                blend: Blend::new(true, device),
                mix: linear(2 * wide, wide, false),
                norm: BatchNormConfig::new(wide).init(device),
                project: linear(wide, wide, false),
            },
            classifier: Classifier {
                hidden: linear(wide, wide / 2, true),
                output: linear(wide / 2, shape.classes, true),
            },
        }
    }

    /// Logits of `[batch, classes]` for images of `[batch, 3, side, side]`.
    pub(crate) fn forward(&self, rgb: Tensor<B, 4>) -> Tensor<B, 2> {
        let luma = Tensor::<B, 1>::from_floats(LUMA, &rgb.device()).reshape([1, 3, 1, 1]);
        let brightness = (rgb.clone() * luma).sum_dim(1);
        let color = relu(self.color_stem.forward(rgb));
        let mut pathways = [color, relu(self.brightness_stem.forward(brightness))];
        let mut stream = None;
        for stage in &self.stages {
            let (flow, integrated) = stage.forward(pathways, stream);
            (pathways, stream) = (flow, Some(integrated));
        }
        let pool = |x: Tensor<B, 4>| {
            let [batch, channels, height, width] = x.dims();
            x.reshape([batch, channels, height * width]).mean_dim(2).reshape([batch, channels])
        };
        let [color, brightness] = pathways.map(pool);
        let gate = &self.gate;
        let both = Tensor::cat(vec![color.clone(), brightness.clone()], 1);
        let mixed = relu(gate.norm.forward(gate.mix.forward(both)));
        let nonlinear = gate.project.forward(mixed);
        let features = gate.blend.forward([Some(color), Some(brightness), stream.map(pool)]);
        let hidden = relu(self.classifier.hidden.forward(features + nonlinear));
        self.classifier.output.forward(hidden)
    }

    /// The learned parameters by their paths.
    pub(crate) fn trained(&self) -> Vec<Named> {
        let mut list = List { path: Path::default(), found: Vec::new() };
        self.visit(&mut list);
        list.found
    }
}

/// The position of a visitor in a module.
#[derive(Default)]
pub(crate) struct Path(Vec<String>);

impl Path {
    pub(crate) fn enter(&mut self, name: &str) {
        self.0.push(name.to_owned());
    }

    pub(crate) fn exit(&mut self) {
        self.0.pop();
    }

    pub(crate) fn joined(&self) -> String {
        self.0.join(".")
    }

    /// Whether the parameter here is learned; running statistics are not.
    pub(crate) fn is_trained(&self) -> bool {
        self.0.last().is_some_and(|name| !name.starts_with("running_"))
    }
}

struct ByFormula(Path);

impl<B: Backend> ModuleMapper<B> for ByFormula {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.0.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.0.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let dims = param.dims();
        let path = self.0.joined();
        let scale = match D {
            4 => formula::weight_scale(dims[1..].iter().product()),
            2 => formula::weight_scale(dims[0]),
            _ if path.ends_with(".bias") => 0.0,
            _ => return param,
        };
        let values = formula::tensor(&path, dims.iter().product(), scale);
        param.map(|old| {
            let data = TensorData::new(values, dims);
            Tensor::from_data(data, &old.device()).set_require_grad(old.is_require_grad())
        })
    }
}

struct List {
    path: Path,
    found: Vec<Named>,
}

impl<B: Backend> ModuleVisitor<B> for List {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if self.path.is_trained() {
            self.found.push((self.path.joined(), numbers(param.val())));
        }
    }
}
