//! A convolution of functions in closed form: forward, and forward with all gradients.

use anyhow::{Context, Result};
use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_kan::{Basis, BasisConv2d, BasisConv2dConfig, LayerPath};

use crate::formula;
use crate::problem::kan_basis::{functions_of, gradients_of_functions, is_trained, name_of};
use crate::problem::kan_beside::sigmoid;
use crate::problem::{Outputs, Pass, Problem, Repeat, Site, Task, Work, numbers, widened};
use crate::strategy::{Kernels, isa_named};

/// Functions of each pixel on every tap of 3 × 3, with `SiLU` and base weights, f32; images are square
/// and have no padding, which others give another meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KanBasisConv {
    pub(crate) basis: Basis,
    pub(crate) batch: usize,
    pub(crate) channels: [usize; 2],
    pub(crate) side: usize,
    pub(crate) pass: Pass,
}

/// Input, coefficients, parameters of the functions, base weights and the loss's factors.
struct Numbers {
    x: Vec<f32>,
    coefficients: Vec<f32>,
    functions: Vec<f32>,
    base: Vec<f32>,
    g: Vec<f32>,
}

impl KanBasisConv {
    const KERNEL: usize = 3;
    const TAPS: usize = Self::KERNEL * Self::KERNEL;

    fn out_side(&self) -> usize {
        self.side - Self::KERNEL + 1
    }

    /// Pixels from −2 to 2.
    fn numbers(&self) -> Numbers {
        let Self { basis, batch, channels: [inputs, outputs], side, .. } = *self;
        let edges = inputs * Self::TAPS * outputs;
        let scale = formula::weight_scale(inputs * Self::TAPS);
        let out_pixels = self.out_side() * self.out_side();
        Numbers {
            x: formula::tensor("x", batch * inputs * side * side, 2.0),
            coefficients: formula::tensor("coefficients", edges * basis.count(), scale),
            functions: functions_of(&basis),
            base: formula::tensor("base", edges, scale),
            g: formula::tensor("g", batch * outputs * out_pixels, 1.0),
        }
    }
}

impl Task for KanBasisConv {
    fn id(&self) -> String {
        let Self { basis, batch, channels: [inputs, outputs], side, pass } = self;
        let (pass, basis) = (pass.name(), name_of(basis));
        format!("kan-basis/conv-{pass}-{basis}-b{batch}-{inputs}to{outputs}-{side}px")
    }

    fn small(&self) -> Problem {
        let channels = self.channels.map(|channels| channels.min(18));
        Problem::KanBasisConv(Self { batch: 2, channels, side: 7, ..self.clone() })
    }

    fn work(&self) -> Work {
        let Self { basis, batch, channels: [inputs, outputs], side, .. } = *self;
        let edges = inputs * Self::TAPS * outputs;
        let out_pixels = self.out_side() * self.out_side();
        let terms = basis.count() + 1;
        let (x, y) = (batch * inputs * side * side, batch * outputs * out_pixels);
        let (passes, moved) = match self.pass {
            Pass::Forward => (1, x + edges * terms + y),
            Pass::Training => (3, 2 * x + 2 * edges * terms + 2 * y),
        };
        Work {
            operations: Some((2 * passes * batch * out_pixels * edges * terms) as u64),
            bytes: Some(4 * moved as u64),
            samples: Some(batch as u64),
        }
    }

    fn reports_memory(&self) -> bool {
        true
    }

    fn reference(&self) -> Result<Outputs> {
        let Self { basis, channels: [inputs, outputs], side, pass, .. } = *self;
        let Numbers { x, coefficients, functions, base, g } = self.numbers();
        let [x, coefficients, functions] = [x, coefficients, functions].map(|v| widened(&v));
        let [base, g] = [base, g].map(|v| widened(&v));
        let (count, out) = (basis.count(), self.out_side());
        let values: Vec<f64> = x.iter().flat_map(|&x| basis.values(x, &functions)).collect();
        let silu: Vec<f64> = x.iter().map(|&x| x * sigmoid(x)).collect();
        let mut y = vec![0.0; g.len()];
        let (mut of_values, mut of_silu) = (vec![0.0; values.len()], vec![0.0; x.len()]);
        let mut dcoefficients = vec![0.0; coefficients.len()];
        let mut dbase = vec![0.0; base.len()];
        for (at, (y, &g)) in y.iter_mut().zip(&g).enumerate() {
            let (image, output) = (at / (outputs * out * out), at / (out * out) % outputs);
            let (row, column) = (at / out % out, at % out);
            for input in 0..inputs * Self::TAPS {
                let (channel, tap) = (input / Self::TAPS, input % Self::TAPS);
                let (row, column) = (row + tap / Self::KERNEL, column + tap % Self::KERNEL);
                let pixel = ((image * inputs + channel) * side + row) * side + column;
                for function in 0..count {
                    let edge = (input * count + function) * outputs + output;
                    let value = pixel * count + function;
                    *y += values[value] * coefficients[edge];
                    of_values[value] += g * coefficients[edge];
                    dcoefficients[edge] += g * values[value];
                }
                let edge = input * outputs + output;
                *y += silu[pixel] * base[edge];
                of_silu[pixel] += g * base[edge];
                dbase[edge] += g * silu[pixel];
            }
        }
        let mut results = vec![("y", y)];
        if pass == Pass::Training {
            let slope = |(at, &x): (usize, &f64)| {
                let slopes = basis.slopes(x, &functions);
                let of_values = &of_values[at * count..];
                let sum: f64 = slopes.iter().zip(of_values).map(|(slope, of)| slope * of).sum();
                sum + of_silu[at] * sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)))
            };
            let dx = x.iter().enumerate().map(slope).collect();
            results.extend([("dx", dx), ("dcoefficients", dcoefficients), ("dbase", dbase)]);
            if is_trained(&basis) {
                let gradients = gradients_of_functions(&basis, &functions, &x, &of_values);
                results.push(("dfunctions", gradients));
            }
        }
        Ok(results.into_iter().map(|(name, values)| (name.to_owned(), values)).collect())
    }

    fn tolerance(&self) -> f64 {
        1e-5
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let path = match site.kernels {
            Kernels::Forced(name) => Some(LayerPath::Kernels(isa_named(name)?)),
            Kernels::Ours => None,
            Kernels::Burn => Some(LayerPath::Plain),
        };
        let device = match self.pass {
            Pass::Forward => site.device.clone(),
            Pass::Training => site.device.clone().autodiff(),
        };
        Ok(Box::new(OnBurn::new(self, device, path)))
    }
}

struct OnBurn {
    layer: BasisConv2d,
    x: Tensor<4>,
    g: Tensor<4>,
    pass: Pass,
    device: Device,
}

impl OnBurn {
    fn new(problem: &KanBasisConv, device: Device, path: Option<LayerPath>) -> Self {
        let KanBasisConv { basis, batch, channels, side, pass } = *problem;
        let [inputs, outputs] = channels;
        let Numbers { x, coefficients, functions, base, g } = problem.numbers();
        let rows = inputs * KanBasisConv::TAPS;
        let matrix = |values: Vec<f32>, shape: [usize; 2]| {
            Tensor::<2>::from_data(TensorData::new(values, shape), &device)
        };
        let config = BasisConv2dConfig::new(channels, [KanBasisConv::KERNEL; 2], basis);
        let config = config.with_bias(false).with_train_functions(is_trained(&basis));
        let mut layer = config.init(&device);
        let coefficients = TensorData::new(coefficients, [rows, basis.count(), outputs]);
        layer.coefficients = Param::from_tensor(Tensor::from_data(coefficients, &device));
        layer.base = Some(Param::from_tensor(matrix(base, [rows, outputs])));
        if is_trained(&basis) {
            let count = functions.len();
            layer.functions = Some(Param::from_tensor(matrix(functions, [1, count])));
        }
        let layer = match path {
            Some(path) => layer.with_path(path),
            None => layer,
        };
        let image = |values: Vec<f32>, channels: usize, side: usize| {
            let data = TensorData::new(values, [batch, channels, side, side]);
            Tensor::<4>::from_data(data, &device)
        };
        let (x, g) = (image(x, inputs, side), image(g, outputs, problem.out_side()));
        Self { layer, x, g, pass, device }
    }

    fn run(&self) -> Result<Vec<(&'static str, Tensor<1>)>> {
        if self.pass == Pass::Forward {
            return Ok(vec![("y", self.layer.forward(self.x.clone()).flatten(0, 3))]);
        }
        let x = self.x.clone().require_grad();
        let y = self.layer.forward(x.clone());
        let mut of = (y.clone() * self.g.clone()).sum().backward();
        let taken = "takes part in the loss";
        let coefficients = self.layer.coefficients.val().grad_remove(&mut of).context(taken)?;
        let base = self.layer.base.as_ref().map(Param::val).context("was set")?;
        let base = base.grad_remove(&mut of).context(taken)?;
        let mut all = vec![
            ("y", y.inner().flatten(0, 3)),
            ("dx", x.grad_remove(&mut of).context(taken)?.flatten(0, 3)),
            ("dcoefficients", coefficients.flatten(0, 2)),
            ("dbase", base.flatten(0, 1)),
        ];
        let functions = self.layer.functions.as_ref().filter(|_| is_trained(self.layer.basis()));
        if let Some(functions) = functions {
            let gradient = functions.val().grad_remove(&mut of).context(taken)?;
            all.push(("dfunctions", gradient.flatten(0, 1)));
        }
        Ok(all)
    }
}

impl Repeat for OnBurn {
    fn once(&mut self) -> Result<()> {
        let _outputs = self.run()?;
        Ok(self.device.sync()?)
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let all = self.run()?.into_iter();
        Ok(all.map(|(name, tensor)| (name.to_owned(), numbers(tensor))).collect())
    }
}
