//! A convolution of functions in closed form: forward, and forward with all gradients.

use std::rc::Rc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use updraft_kan::{Basis, BasisConv2d, BasisConv2dConfig};

use crate::formula;
use crate::problem::kan_basis::{functions_of, gradients_of_functions, is_trained, name_of};
use crate::problem::kan_beside::sigmoid;
use crate::problem::kan_pass::{KanPass, parameter, path_of_basis};
use crate::problem::{Outputs, Pass, Problem, Repeat, Site, Task, Work, widened};

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
        // With as many channels and tiles, what is checked is computed by Winograd's algorithm, too.
        let [batch, side] = if channels.iter().all(|&few| few >= 16) { [16, 10] } else { [2, 7] };
        Problem::KanBasisConv(Self { batch, channels, side, ..self.clone() })
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
        let Self { basis, batch, channels, side, pass } = *self;
        let [inputs, outputs] = channels;
        let (device, path) = (pass.device(&site.device), path_of_basis(site.kernels)?);
        let Numbers { x, coefficients, functions, base, g } = self.numbers();
        let rows = inputs * Self::TAPS;
        let config = BasisConv2dConfig::new(channels, [Self::KERNEL; 2], basis);
        let config = config.with_bias(false).with_train_functions(is_trained(&basis));
        let mut layer = config.init(&device);
        layer.coefficients = parameter(coefficients, [rows, basis.count(), outputs], &device);
        layer.base = Some(parameter(base, [rows, outputs], &device));
        if is_trained(&basis) {
            let shape = [1, functions.len()];
            layer.functions = Some(parameter(functions, shape, &device));
        }
        let layer = Rc::new(match path {
            Some(path) => layer.with_path(path),
            None => layer,
        });
        let out_side = self.out_side();
        let given = [(x, [batch, inputs, side, side]), (g, [batch, outputs, out_side, out_side])];
        let repeated = KanPass::new(&layer, BasisConv2d::forward, given, (pass, &device))
            .with("dcoefficients", Some(&layer.coefficients))
            .with("dbase", layer.base.as_ref())
            .with("dfunctions", layer.functions.as_ref().filter(|_| is_trained(&basis)));
        Ok(Box::new(repeated))
    }
}
