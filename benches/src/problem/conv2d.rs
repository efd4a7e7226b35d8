//! Convolution of images: forward, each gradient by itself, and forward with both.

use anyhow::{Result, ensure};
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_conv::slices::{
    Algorithm, ConvGeometry, ConvShape, Isa, Pass, Scratch, Strategy, forward, input_gradient,
    strategy, weight_gradient,
};
use updraft_simd::Products;

use crate::formula;
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work, widened};
use crate::strategy::{DIRECT, Kernels, isa_named};

/// A square kernel over square images, f32, NCHW, padded by half the kernel, without bias.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Conv2d {
    pub(crate) batch: usize,
    /// Input and output channels.
    pub(crate) channels: [usize; 2],
    /// The number of groups; as many as channels is a depthwise convolution.
    pub(crate) groups: usize,
    /// Height and width of the input, in pixels.
    pub(crate) side: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) pass: ConvPass,
    /// Whether our kernels multiply numbers rounded to bf16.
    pub(crate) bf16: bool,
}

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConvPass {
    /// The result alone, without a graph.
    Forward,
    /// The result and, from the loss `Σ y·g`, the gradients of input and weights.
    Training,
    /// Of the loss `Σ y·g`, the input's gradient alone, which burn's tensors do not offer.
    InputGradient,
    /// Of the loss `Σ y·g`, the weights' gradient alone, which burn's tensors do not offer.
    WeightGradient,
}

impl ConvPass {
    /// Whether a layer computes it by itself on burn's tensors.
    pub(crate) const fn is_on_tensors(self) -> bool {
        matches!(self, Self::Forward | Self::Training)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Training => "training",
            Self::InputGradient => "input-gradient",
            Self::WeightGradient => "weight-gradient",
        }
    }
}

impl Conv2d {
    fn padding(&self) -> usize {
        self.kernel / 2
    }

    fn output_side(&self) -> usize {
        (self.side + 2 * self.padding() - self.kernel) / self.stride + 1
    }

    fn products(&self) -> Products {
        if self.bf16 { Products::Bf16 } else { Products::F32 }
    }

    fn geometry(&self) -> Result<ConvGeometry> {
        let geometry = ConvGeometry::try_new(ConvShape {
            stride: [self.stride; 2],
            padding: [self.padding(); 2],
            groups: self.groups,
            ..ConvShape::new(self.batch, self.channels, [self.side; 2], [self.kernel; 2])
        })?;
        Ok(geometry.with_products(self.products()))
    }

    /// How our kernels compute its passes on this CPU.
    pub(crate) fn strategies(&self) -> Result<Vec<(Pass, Strategy)>> {
        let passes: &[Pass] = match self.pass {
            ConvPass::Forward => &[Pass::Forward],
            ConvPass::InputGradient => &[Pass::InputGradient],
            ConvPass::WeightGradient => &[Pass::WeightGradient],
            ConvPass::Training => &Pass::ALL,
        };
        let geometry = self.geometry()?;
        let chosen = |&pass: &Pass| (pass, strategy(Isa::detect(), &geometry, pass));
        Ok(passes.iter().map(chosen).collect())
    }

    /// Whether products are left out.
    pub(crate) fn is_winograd(&self) -> bool {
        let strategies = self.strategies().unwrap_or_default();
        strategies.iter().any(|(_, chosen)| chosen.algorithm == Algorithm::Winograd)
    }

    fn shapes(&self) -> [[usize; 4]; 3] {
        let [input, output] = self.channels;
        let side = self.output_side();
        [
            [self.batch, input, self.side, self.side],
            [output, input / self.groups, self.kernel, self.kernel],
            [self.batch, output, side, side],
        ]
    }

    /// Input, weights and the loss's factors.
    fn inputs(&self) -> [Vec<f32>; 3] {
        let [x, w, g] = self.shapes().map(|shape| shape.iter().product());
        let meeting = self.channels[0] / self.groups * self.kernel * self.kernel;
        let scale = formula::weight_scale(meeting);
        [formula::tensor("x", x, 1.0), formula::tensor("w", w, scale), formula::tensor("g", g, 1.0)]
    }

    /// Every product of the convolution: `visit(output, input, weight)` as flat indices.
    fn visit_products(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let [input, output] = self.channels;
        let [inputs, outputs] = self.channels.map(|channels| channels / self.groups);
        let (side, out, kernel) = (self.side, self.output_side(), self.kernel);
        for (n, o, y, x) in indices([self.batch, output, out, out]) {
            let to = ((n * output + o) * out + y) * out + x;
            for (i, ky, kx, _) in indices([inputs, kernel, kernel, 1]) {
                let row = (y * self.stride + ky).wrapping_sub(self.padding());
                let column = (x * self.stride + kx).wrapping_sub(self.padding());
                if row < side && column < side {
                    let from = n * input + o / outputs * inputs + i;
                    let from = (from * side + row) * side + column;
                    visit(to, from, ((o * inputs + i) * kernel + ky) * kernel + kx);
                }
            }
        }
    }
}

fn indices([a, b, c, d]: [usize; 4]) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..a).flat_map(move |i| {
        (0..b).flat_map(move |j| (0..c).flat_map(move |k| (0..d).map(move |l| (i, j, k, l))))
    })
}

impl Task for Conv2d {
    fn id(&self) -> String {
        let Self { batch, channels: [input, output], groups, side, kernel, stride, .. } = self;
        let stride = if *stride == 1 { String::new() } else { format!("s{stride}") };
        let groups = if *groups == 1 { String::new() } else { format!("g{groups}") };
        let (pass, bf16) = (self.pass.name(), if self.bf16 { "-bf16" } else { "" });
        format!("conv2d/{pass}{bf16}-b{batch}-{input}to{output}-{side}px-k{kernel}{stride}{groups}")
    }

    fn small(&self) -> Problem {
        // Rows still fill a vector and end within one, so that the algorithms are the same.
        // More channels take the same algorithms, and the reference in f64 much time.
        let channels = match self.groups {
            1 => self.channels.map(|channels| channels.min(64)),
            _ => self.channels,
        };
        let shape =
            |&(batch, side): &(usize, usize)| Self { batch, side, channels, ..self.clone() };
        let is_alike = |small: &Self| small.strategies().ok() == self.strategies().ok();
        let sizes = if self.side < 16 { [(17, 10), (65, 10)] } else { [(2, 28), (2, 46)] };
        let small = sizes.iter().map(shape).find(is_alike);
        Problem::Conv2d(small.unwrap_or_else(|| shape(&sizes[0])))
    }

    fn work(&self) -> Work {
        let [x, w, y] = self.shapes().map(|shape| shape.iter().product::<usize>());
        let products = y * self.channels[0] / self.groups * self.kernel * self.kernel;
        let (passes, moved) = match self.pass {
            ConvPass::Forward => (1, x + w + y),
            // Reads x, w and g; writes y, dx and dw.
            ConvPass::Training => (3, 2 * x + 2 * w + 2 * y),
            ConvPass::InputGradient | ConvPass::WeightGradient => (1, x + w + y),
        };
        Work {
            operations: Some((2 * passes * products) as u64),
            bytes: Some(4 * moved as u64),
            samples: Some(self.batch as u64),
        }
    }

    fn reference(&self) -> Result<Outputs> {
        let [x, w, g] = self.inputs().map(|v| v.into_iter().map(f64::from).collect::<Vec<_>>());
        let mut outputs = Outputs::new();
        if self.pass.is_on_tensors() {
            let mut y = vec![0.0; g.len()];
            self.visit_products(|to, from, weight| y[to] += x[from] * w[weight]);
            outputs.insert("y".to_owned(), y);
        }
        if matches!(self.pass, ConvPass::Training | ConvPass::InputGradient) {
            let mut dx = vec![0.0; x.len()];
            self.visit_products(|to, from, weight| dx[from] += g[to] * w[weight]);
            outputs.insert("dx".to_owned(), dx);
        }
        if matches!(self.pass, ConvPass::Training | ConvPass::WeightGradient) {
            let mut dw = vec![0.0; w.len()];
            self.visit_products(|to, from, weight| dw[weight] += g[to] * x[from]);
            outputs.insert("dw".to_owned(), dw);
        }
        Ok(outputs)
    }

    fn choices(&self) -> Vec<String> {
        let strategies = self.strategies().unwrap_or_default();
        strategies.into_iter().map(|(pass, chosen)| format!("{pass}: {chosen}")).collect()
    }

    fn tolerance(&self) -> f64 {
        // Eight bits of each factor.
        if self.bf16 { 2e-2 } else { 1e-5 }
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        match site.kernels {
            Kernels::Forced(DIRECT) => {
                let geometry = self.geometry()?.with_every_product();
                let isa = Isa::detect();
                return Ok(Box::new(OnSlices::new(self, geometry, isa, site.threads)));
            }
            Kernels::Forced(name) => {
                let isa = isa_named(name)?;
                return Ok(Box::new(OnSlices::new(self, self.geometry()?, isa, site.threads)));
            }
            Kernels::Ours if !self.pass.is_on_tensors() => {
                let isa = Isa::detect();
                return Ok(Box::new(OnSlices::new(self, self.geometry()?, isa, site.threads)));
            }
            _ => ensure!(self.pass.is_on_tensors(), "burn has no operation for one gradient"),
        }
        let device = match self.pass {
            ConvPass::Forward => site.device.clone(),
            _ => site.device.clone().autodiff(),
        };
        let [x, w, g] = self.inputs();
        let [x_shape, w_shape, g_shape] = self.shapes();
        let load = |values: Vec<f32>, shape: [usize; 4]| {
            Tensor::<4>::from_data(TensorData::new(values, shape), &device)
        };
        let padding = self.padding();
        Ok(Box::new(OnBurn {
            convolve: if site.kernels == Kernels::Ours { updraft_conv::conv2d } else { conv2d },
            x: load(x, x_shape),
            w: load(w, w_shape),
            g: load(g, g_shape),
            options: ConvOptions::new([self.stride; 2], [padding; 2], [1, 1], self.groups),
            pass: self.pass,
            products: self.products(),
            device,
        }))
    }
}

type Convolve = fn(Tensor<4>, Tensor<4>, Option<Tensor<1>>, ConvOptions<2>) -> Tensor<4>;

struct OnBurn {
    convolve: Convolve,
    x: Tensor<4>,
    w: Tensor<4>,
    g: Tensor<4>,
    options: ConvOptions<2>,
    pass: ConvPass,
    products: Products,
    device: Device,
}

impl OnBurn {
    fn convolve(&self, x: Tensor<4>, w: Tensor<4>) -> Tensor<4> {
        self.products.scope(|| (self.convolve)(x, w, None, self.options.clone()))
    }

    fn run(&self) -> Vec<(&'static str, Tensor<4>)> {
        match self.pass {
            ConvPass::Forward => vec![("y", self.convolve(self.x.clone(), self.w.clone()))],
            _ => {
                let (x, w) = (self.x.clone().require_grad(), self.w.clone().require_grad());
                let y = self.convolve(x.clone(), w.clone());
                let mut gradients = (y.clone() * self.g.clone()).sum().backward();
                let dx = x.grad_remove(&mut gradients).expect("x takes part in the loss");
                let dw = w.grad_remove(&mut gradients).expect("w takes part in the loss");
                vec![("y", y.inner()), ("dx", dx), ("dw", dw)]
            }
        }
    }
}

impl Repeat for OnBurn {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.run());
        self.device.sync()?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let results = self.run().into_iter();
        Ok(results.map(|(name, tensor)| (name.to_owned(), super::numbers(tensor))).collect())
    }
}

/// Our kernels without burn, into existing memory.
struct OnSlices {
    isa: Isa,
    geometry: ConvGeometry,
    pass: ConvPass,
    inputs: [Vec<f32>; 3],
    y: Vec<f32>,
    dx: Vec<f32>,
    dw: Vec<f32>,
    scratch: Scratch,
    threads: usize,
}

impl OnSlices {
    fn new(problem: &Conv2d, geometry: ConvGeometry, isa: Isa, threads: usize) -> Self {
        let inputs = problem.inputs();
        let [x, w, g] = [0, 1, 2].map(|index: usize| vec![0.0; inputs[index].len()]);
        Self {
            isa,
            geometry,
            pass: problem.pass,
            inputs,
            y: g,
            dx: x,
            dw: w,
            scratch: Scratch::new(),
            threads,
        }
    }
}

impl Repeat for OnSlices {
    fn once(&mut self) -> Result<()> {
        let Self { isa, geometry, inputs: [x, w, g], y, dx, dw, scratch, threads, .. } = self;
        // What autodiff computes for `Σ y·g`, without the sum.
        if self.pass.is_on_tensors() {
            forward(*isa, geometry, x, w, None, y, scratch, *threads);
        }
        if matches!(self.pass, ConvPass::Training | ConvPass::InputGradient) {
            input_gradient(*isa, geometry, g, w, dx, scratch, *threads);
        }
        if matches!(self.pass, ConvPass::Training | ConvPass::WeightGradient) {
            weight_gradient(*isa, geometry, x, g, dw, scratch, *threads);
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let all = [("y", &self.y), ("dx", &self.dx), ("dw", &self.dw)];
        Ok(all.into_iter().map(|(name, values)| (name.to_owned(), widened(values))).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog::entries;
    use crate::problem::Problem;

    #[test]
    fn the_small_shape_is_computed_as_the_large_one() {
        for entry in entries() {
            let Problem::Conv2d(large) = &entry.problem else { continue };
            let Problem::Conv2d(small) = entry.problem.task().small() else {
                panic!("the small shape of a convolution is one")
            };
            let [large, small] = [large, &small].map(|of| of.strategies().expect("valid"));
            assert_eq!(large, small, "{}", entry.id);
        }
    }
}
