//! Single layers in eight bits, from codes to codes with the channels last, as inside a network.

mod floats;
mod parameters;
mod reference;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use updraft_quant::slices::{Isa, Pooling, Resizing, reference as integers};
use updraft_quant::{
    ActivationScheme, Binary, Calibration, Function, Graph, OutputScheme, QuantizedModel, Unary,
    Value, Window, Workspace,
};

use self::floats::InFloats;
use crate::formula;
use crate::problem::{Arithmetic, Outputs, Problem, Proof, Repeat, Site, Task, Work, error_of};
use crate::strategy::{FLOATS, Kernels, isa_named};

/// A layer on images of `[batch, side, side, channels]`, or on rows of `[batch, channels]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Int8Layer {
    pub(crate) layer: LayerKind,
    pub(crate) batch: usize,
    pub(crate) channels: [usize; 2],
    pub(crate) side: usize,
    /// Of a convolution or a pool; a kernel of even sides is not padded.
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) groups: usize,
}

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LayerKind {
    Convolution,
    Linear,
    /// A transposed convolution whose windows do not overlap.
    Transposed,
    AveragePool,
    MaxPool,
    /// The mean of each image.
    Mean,
    Add,
    /// Of two tensors along the channels, each in the scheme of the result.
    Concatenate,
    /// To twice the sides.
    Nearest,
    /// The same by linear interpolation.
    Bilinear,
    Silu,
    HardSwish,
    Sigmoid,
}

/// Scales are powers of two, so that no order of the factors rounds differently.
const INPUT: (f32, u8) = (1.0 / 64.0, 120);
/// One code of 255, with room for a greatest result below 255.
const ONE_CODE: f64 = 1.0 / 160.0;

impl LayerKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Convolution => "conv",
            Self::Linear => "linear",
            Self::Transposed => "transposed",
            Self::AveragePool => "avgpool",
            Self::MaxPool => "maxpool",
            Self::Mean => "mean",
            Self::Add => "add",
            Self::Concatenate => "concat",
            Self::Nearest => "nearest",
            Self::Bilinear => "bilinear",
            Self::Silu => "silu",
            Self::HardSwish => "hardswish",
            Self::Sigmoid => "sigmoid",
        }
    }

    const fn has_weights(self) -> bool {
        matches!(self, Self::Convolution | Self::Linear | Self::Transposed)
    }

    const fn has_window(self) -> bool {
        matches!(self, Self::Convolution | Self::Transposed | Self::AveragePool | Self::MaxPool)
    }

    /// The function of an element-wise layer.
    fn function(self) -> Option<Function> {
        let x = Function::identity();
        let constant = Function::constant;
        Some(match self {
            Self::Sigmoid => x.then(Unary::Sigmoid),
            Self::Silu => Function::binary(Binary::Multiply, &x, &x.then(Unary::Sigmoid)),
            Self::HardSwish => {
                let above = Function::binary(Binary::Add, &x, &constant(3.0));
                let above = Function::binary(Binary::Maximum, &above, &constant(0.0));
                let cut = Function::binary(Binary::Minimum, &above, &constant(6.0));
                let gate = Function::binary(Binary::Divide, &cut, &constant(6.0));
                Function::binary(Binary::Multiply, &x, &gate)
            }
            _ => return None,
        })
    }
}

impl Int8Layer {
    pub(super) fn input() -> Result<ActivationScheme> {
        Ok(ActivationScheme::try_new(INPUT.0, INPUT.1)?)
    }

    /// Sums of products reach a good part of the codes; other layers keep the range of their inputs
    /// or have that of their function.
    pub(super) fn output(&self) -> Result<ActivationScheme> {
        let (scale, zero) = match self.layer {
            kind if kind.has_weights() => {
                let bits = usize::BITS - self.terms().leading_zeros();
                let steps = 2.0_f32.powi((6 + bits.div_ceil(2)) as i32);
                (INPUT.0 * Self::weight_scale(0) * steps, 128)
            }
            LayerKind::Add => (1.0 / 32.0, 120),
            LayerKind::Silu => (1.0 / 100.0, 30),
            LayerKind::HardSwish => (1.0 / 100.0, 40),
            LayerKind::Sigmoid => (1.0 / 255.0, 0),
            _ => INPUT,
        };
        Ok(ActivationScheme::try_new(scale, zero)?)
    }

    /// The products of a sum.
    const fn terms(&self) -> usize {
        let inputs = self.channels[0];
        match self.layer {
            LayerKind::Linear | LayerKind::Transposed => inputs,
            _ => inputs / self.groups * self.kernel * self.kernel,
        }
    }

    pub(super) const fn padding(&self) -> usize {
        if self.kernel.is_multiple_of(2) { 0 } else { self.kernel / 2 }
    }

    fn window(&self) -> Window {
        let padding = [self.padding(); 2];
        Window { stride: [self.stride; 2], padding, ..Window::new([self.kernel; 2]) }
    }

    /// Height and width of a result.
    pub(super) const fn output_side(&self) -> usize {
        match self.layer {
            LayerKind::Linear | LayerKind::Mean => 1,
            LayerKind::Transposed => self.side * self.stride,
            LayerKind::Nearest | LayerKind::Bilinear => 2 * self.side,
            kind if kind.has_window() => {
                (self.side + 2 * self.padding() - self.kernel) / self.stride + 1
            }
            _ => self.side,
        }
    }

    const fn inputs(&self) -> &'static [&'static str] {
        match self.layer {
            LayerKind::Add | LayerKind::Concatenate => &["x", "b"],
            _ => &["x"],
        }
    }

    /// Channels, height and width of a sample.
    fn sample(&self) -> [usize; 3] {
        [self.channels[0], self.side, self.side]
    }

    fn layer(&self, graph: &mut Graph, x: &[Value]) -> Result<Value> {
        let (weights, bias) = match self.layer.has_weights() {
            true => (self.weights(), self.bias()),
            false => (Vec::new(), Vec::new()),
        };
        let twice = [2 * self.side; 2];
        Ok(match self.layer {
            LayerKind::Convolution => {
                graph.convolution("layer", x[0], self.window(), self.groups, &weights, &bias)?
            }
            LayerKind::Linear => graph.linear("layer", x[0], &weights, &bias)?,
            LayerKind::Transposed => {
                let blocks = self.blocks(&weights);
                let bias = bias.repeat(self.kernel * self.kernel);
                let y =
                    graph.convolution("pixels", x[0], Window::new([1; 2]), 1, &blocks, &bias)?;
                graph.set_scheme(y, self.output()?);
                graph.depth_to_space("layer", y, self.kernel)?
            }
            LayerKind::AveragePool => {
                graph.pool("layer", x[0], self.window(), Pooling::MeanOfImage)?
            }
            LayerKind::MaxPool => graph.pool("layer", x[0], self.window(), Pooling::Maximum)?,
            LayerKind::Mean => {
                graph.pool("layer", x[0], Window::new([self.side; 2]), Pooling::MeanOfImage)?
            }
            LayerKind::Add => graph.add("layer", x[0], x[1])?,
            LayerKind::Concatenate => graph.concatenate("layer", x, 0)?,
            LayerKind::Nearest => graph.resize("layer", x[0], twice, Resizing::Nearest)?,
            LayerKind::Bilinear => graph.resize("layer", x[0], twice, Resizing::Linear)?,
            LayerKind::Silu | LayerKind::HardSwish | LayerKind::Sigmoid => {
                let function = self.layer.function().expect("it is element-wise");
                graph.function("layer", x[0], &function)?
            }
        })
    }

    /// A transposed convolution's weights as those of one output for each pixel of a block.
    fn blocks(&self, weights: &[f32]) -> Vec<f32> {
        let [inputs, outputs] = self.channels;
        let area = self.kernel * self.kernel;
        let of = |at: usize| {
            let (pixel, output, input) =
                (at / inputs / outputs, at / inputs % outputs, at % inputs);
            weights[(input * outputs + output) * area + pixel]
        };
        (0..weights.len()).map(of).collect()
    }

    /// A network with this layer only, whose ends have the problem's schemes.
    fn model(&self) -> Result<QuantizedModel> {
        let mut graph = Graph::new();
        let shape = self.sample();
        let shape = if self.layer == LayerKind::Linear { &shape[..1] } else { &shape };
        let mut x = Vec::new();
        for name in self.inputs() {
            x.push(graph.input(name, shape)?);
        }
        for &x in &x {
            graph.set_scheme(x, Self::input()?);
        }
        let y = self.layer(&mut graph, &x)?;
        graph.set_scheme(y, self.output()?);
        let each: usize = shape.iter().product();
        // The schemes are given: one sample shows that there are numbers.
        let seen: Vec<_> =
            self.inputs().iter().map(|name| formula::tensor(name, each, 1.0)).collect();
        let seen: Vec<&[f32]> = seen.iter().map(Vec::as_slice).collect();
        Ok(QuantizedModel::try_quantize(&graph, [&seen[..]], Calibration::MinMax)?)
    }
}

impl Task for Int8Layer {
    fn id(&self) -> String {
        let Self { layer, batch, channels: [inputs, outputs], side, kernel, stride, groups } = self;
        let mut name = format!("quant/layer-{}", layer.name());
        if layer.has_window() {
            name += &format!("{kernel}x{kernel}");
        }
        if *layer == LayerKind::Linear {
            return format!("{name}-b{batch}-{inputs}to{outputs}");
        }
        let channels =
            if inputs == outputs { format!("{inputs}ch") } else { format!("{inputs}to{outputs}") };
        name += &format!("-b{batch}-{channels}-{side}px");
        if layer.has_window() && *stride > 1 {
            name += &format!("-s{stride}");
        }
        match *groups {
            1 => name,
            groups if groups == *inputs => name + "-depthwise",
            groups => name + &format!("-g{groups}"),
        }
    }

    fn small(&self) -> Problem {
        let (channels, groups) = match (self.layer, self.groups) {
            (LayerKind::Convolution, 1) | (LayerKind::Linear | LayerKind::Transposed, _) => {
                ([20, 37], 1)
            }
            (LayerKind::Convolution, groups) if groups == self.channels[0] => ([20; 2], 20),
            (LayerKind::Convolution, _) => ([12, 15], 3),
            (LayerKind::Concatenate, _) => ([20, 40], 1),
            _ => ([20; 2], 1),
        };
        let side = if self.layer == LayerKind::Linear { 1 } else { 9 };
        Problem::Int8Layer(Self { batch: 2, channels, groups, side, ..self.clone() })
    }

    fn work(&self) -> Work {
        let [inputs, outputs] = self.channels;
        let results = self.batch * self.output_side().pow(2) * outputs;
        let moved = self.inputs().len() * self.batch * self.side * self.side * inputs + results;
        Work {
            operations: self.layer.has_weights().then_some(2 * (results * self.terms()) as u64),
            bytes: Some(moved as u64),
            samples: Some(self.batch as u64),
        }
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::Int8
    }

    fn reference(&self) -> Result<Outputs> {
        let x = self.codes();
        let output = OutputScheme::new(self.output()?);
        let y: Vec<f64> = if self.layer.has_weights() {
            let sums = self.sums(&x[0])?.into_iter().enumerate();
            let scale = |at: usize| {
                f64::from(INPUT.0) * f64::from(Self::weight_scale(at % self.channels[1]))
            };
            sums.map(|(at, sum)| integers::code(sum, scale(at), output).into()).collect()
        } else {
            let step = f64::from(output.scheme().scale());
            let zero = f64::from(output.scheme().zero_point());
            let code = |y: f64| ((y / step).round_ties_even() + zero).clamp(0.0, 255.0);
            self.real(&x)?.into_iter().map(code).collect()
        };
        Ok(Outputs::from([("y".to_owned(), y)]))
    }

    /// Integers have no error; what passes through f32 may be rounded to the next code.
    fn tolerance(&self) -> f64 {
        if self.layer.has_weights() { 0.0 } else { ONE_CODE }
    }

    fn compare(&self, strategy: &str, outputs: &Outputs, reference: &Outputs) -> Result<Proof> {
        let is_in_f32 = strategy == format!("updraft-{FLOATS}")
            // onnxruntime computes these in f32.
            || strategy == "onnxruntime" && self.layer == LayerKind::Transposed;
        let tolerance = if is_in_f32 { ONE_CODE } else { self.tolerance() };
        Ok(Proof { error: error_of(outputs, reference)?, tolerance })
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let isa = match site.kernels {
            Kernels::Burn | Kernels::Forced(FLOATS) => {
                return Ok(Box::new(InFloats::new(self, &site.device)?));
            }
            Kernels::Ours => Isa::detect(),
            Kernels::Forced(name) => isa_named(name)?,
        };
        let results = self.batch * self.output_side().pow(2) * self.channels[1];
        Ok(Box::new(InBytes {
            isa,
            model: self.model()?,
            x: self.codes(),
            y: vec![0; results],
            workspace: Workspace::new(),
            threads: site.threads,
        }))
    }
}

/// Our model, from codes to codes.
struct InBytes {
    isa: Isa,
    model: QuantizedModel,
    x: Vec<Vec<u8>>,
    y: Vec<u8>,
    workspace: Workspace,
    threads: usize,
}

impl Repeat for InBytes {
    fn once(&mut self) -> Result<()> {
        let Self { isa, model, x, y, workspace, threads } = self;
        let x: Vec<&[u8]> = x.iter().map(Vec::as_slice).collect();
        model.run_codes(*isa, &x, &mut [y], workspace, *threads);
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let y = self.y.iter().copied().map(f64::from).collect();
        Ok(Outputs::from([("y".to_owned(), y)]))
    }
}
