//! A convolution of splines: forward, and forward with all gradients.

use std::rc::Rc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use updraft_kan::slices::reference::{self, Parameters};
use updraft_kan::slices::{
    Activation, BaseBranch, ConvAxis, ConvGeometry, Gradients, Grid, Isa, Scratch, Weights,
    conv_backward, conv_forward,
};
use updraft_kan::{KanConv2d, KanConv2dConfig, LayerPath};

use crate::formula;
use crate::problem::kan_pass::{KanPass, parameter};
use crate::problem::{Outputs, Pass, Problem, Proof, Repeat, Site, Task, Work, error_of, widened};
use crate::strategy::{EXPANDED_CONV, Kernels, isa_named};

/// Cubic splines over equal intervals of `[−1, 1]` on every tap of 3 × 3, with `SiLU` and base
/// weights, f32; images are square and have no padding, which others give another meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KanConv {
    pub(crate) batch: usize,
    pub(crate) channels: [usize; 2],
    pub(crate) side: usize,
    pub(crate) intervals: usize,
    pub(crate) pass: Pass,
}

/// Input, coefficients, base weights and the loss's factors.
struct Numbers {
    x: Vec<f32>,
    spline: Vec<f32>,
    base: Vec<f32>,
    g: Vec<f32>,
}

impl KanConv {
    const DEGREE: usize = 3;
    const KERNEL: usize = 3;
    const TAPS: usize = Self::KERNEL * Self::KERNEL;

    fn bases(&self) -> usize {
        self.intervals + Self::DEGREE
    }

    fn out_side(&self) -> usize {
        self.side - Self::KERNEL + 1
    }

    fn geometry(&self) -> Result<ConvGeometry> {
        let grid = Grid::uniform(-1.0, 1.0, self.intervals, Self::DEGREE)?;
        let axes = [ConvAxis::new(Self::KERNEL); 2];
        let base = BaseBranch::ConvOfActivation;
        Ok(ConvGeometry::try_new(grid, self.channels, 1, &axes, Activation::Silu, base)?)
    }

    /// A tenth of the pixels lie outside the domain.
    fn numbers(&self) -> Numbers {
        let Self { batch, channels: [inputs, outputs], side, .. } = *self;
        let edges = inputs * Self::TAPS * outputs;
        let scale = formula::weight_scale(inputs * Self::TAPS);
        let out_pixels = self.out_side() * self.out_side();
        Numbers {
            x: formula::tensor("x", batch * inputs * side * side, 1.1),
            spline: formula::tensor("spline", edges * self.bases(), scale),
            base: formula::tensor("base", edges, scale),
            g: formula::tensor("g", batch * outputs * out_pixels, 1.0),
        }
    }

    /// A plain convolution of as many channels as there are bases and a base branch, in f64.
    fn expanded(&self) -> Outputs {
        let Self { batch, channels: [inputs, outputs], side, pass, .. } = *self;
        let channels = inputs * (self.bases() + 1);
        let scale = formula::weight_scale(inputs * Self::TAPS);
        let x = widened(&formula::tensor("expanded", batch * channels * side * side, 1.0));
        let weight = widened(&formula::tensor("weight", outputs * channels * Self::TAPS, scale));
        let g = widened(&self.numbers().g);
        let out = self.out_side();
        let mut y = vec![0.0; g.len()];
        let (mut dx, mut dweight) = (vec![0.0; x.len()], vec![0.0; weight.len()]);
        for (at, y) in y.iter_mut().enumerate() {
            let (image, output) = (at / (outputs * out * out), at / (out * out) % outputs);
            let (row, column) = (at / out % out, at % out);
            for channel in 0..channels {
                for tap in 0..Self::TAPS {
                    let (row, column) = (row + tap / Self::KERNEL, column + tap % Self::KERNEL);
                    let pixel = ((image * channels + channel) * side + row) * side + column;
                    let own = (output * channels + channel) * Self::TAPS + tap;
                    *y += x[pixel] * weight[own];
                    dx[pixel] += g[at] * weight[own];
                    dweight[own] += g[at] * x[pixel];
                }
            }
        }
        let mut results = vec![("y", y)];
        if pass == Pass::Training {
            results.extend([("dexpanded", dx), ("dweight", dweight)]);
        }
        results.into_iter().map(|(name, values)| (name.to_owned(), values)).collect()
    }
}

impl Task for KanConv {
    fn id(&self) -> String {
        let Self { batch, channels: [inputs, outputs], side, intervals, pass } = self;
        let pass = pass.name();
        format!("kan-conv/{pass}-b{batch}-{inputs}to{outputs}-{side}px-k3-g{intervals}")
    }

    fn small(&self) -> Problem {
        let channels = self.channels.map(|channels| channels.min(18));
        // With as many channels and tiles, what is checked is computed by Winograd's algorithm, too.
        let [batch, side] = if channels.iter().all(|&few| few >= 16) { [16, 10] } else { [2, 7] };
        Problem::KanConv(Self { batch, channels, side, ..self.clone() })
    }

    fn work(&self) -> Work {
        let Self { batch, channels: [inputs, outputs], side, .. } = *self;
        let edges = inputs * Self::TAPS * outputs;
        let out_pixels = self.out_side() * self.out_side();
        // What the definition needs: the bases that differ from zero, and the base branch.
        let products = batch * out_pixels * edges * (Self::DEGREE + 2);
        let (x, y) = (batch * inputs * side * side, batch * outputs * out_pixels);
        let weights = edges * (self.bases() + 1);
        let (passes, moved) = match self.pass {
            Pass::Forward => (1, x + weights + y),
            Pass::Training => (3, 2 * x + 2 * weights + 2 * y),
        };
        Work {
            operations: Some((2 * passes * products) as u64),
            bytes: Some(4 * moved as u64),
            samples: Some(batch as u64),
        }
    }

    fn reference(&self) -> Result<Outputs> {
        let Numbers { x, spline, base, g } = self.numbers();
        let [x, spline, base, g] = [x, spline, base, g].map(|v| widened(&v));
        let (geometry, shape) = (self.geometry()?, [self.side; 2]);
        let parameters = Parameters { spline, base, ..Parameters::default() };
        let y = reference::conv_forward(&geometry, &parameters, &x, &shape);
        let mut outputs = Outputs::from([("y".to_owned(), y)]);
        if self.pass == Pass::Training {
            let of = reference::conv_backward(&geometry, &parameters, &x, &shape, &g);
            let Parameters { spline, base, .. } = of.parameters;
            let all = [("dx", of.x), ("dspline", spline), ("dbase", base)];
            outputs.extend(all.map(|(name, values)| (name.to_owned(), values)));
        }
        Ok(outputs)
    }

    fn tolerance(&self) -> f64 {
        1e-5
    }

    fn compare(&self, strategy: &str, outputs: &Outputs, reference: &Outputs) -> Result<Proof> {
        let error = match strategy {
            EXPANDED_CONV => error_of(outputs, &self.expanded())?,
            // burn multiplies in TF32 there.
            "cuda" => {
                return Ok(Proof { error: error_of(outputs, reference)?, tolerance: 2e-3 });
            }
            _ => error_of(outputs, reference)?,
        };
        Ok(Proof { error, tolerance: self.tolerance() })
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let path = match site.kernels {
            Kernels::Forced(name) => {
                let isa = isa_named(name)?;
                return Ok(Box::new(OnSlices::new(self, isa, site.threads)?));
            }
            Kernels::Ours => None,
            Kernels::Burn => Some(LayerPath::Plain),
        };
        let KanConv { batch, channels, side, intervals, pass } = *self;
        let [inputs, outputs] = channels;
        let device = pass.device(&site.device);
        let Numbers { x, spline, base, g } = self.numbers();
        let rows = inputs * Self::TAPS;
        let config = KanConv2dConfig::new(channels, [Self::KERNEL; 2]).with_scaler(false);
        let mut layer = config.with_intervals(intervals).init(&device);
        layer.spline = parameter(spline, [rows, self.bases(), outputs], &device);
        layer.base = Some(parameter(base, [rows, outputs], &device));
        let layer = Rc::new(match path {
            Some(path) => layer.with_path(path),
            None => layer,
        });
        let out_side = self.out_side();
        let given = [(x, [batch, inputs, side, side]), (g, [batch, outputs, out_side, out_side])];
        let repeated = KanPass::new(&layer, KanConv2d::forward, given, (pass, &device))
            .with("dspline", Some(&layer.spline))
            .with("dbase", layer.base.as_ref());
        Ok(Box::new(repeated))
    }
}

struct OnSlices {
    isa: Isa,
    geometry: ConvGeometry,
    shape: [usize; 2],
    pass: Pass,
    numbers: Numbers,
    y: Vec<f32>,
    dx: Vec<f32>,
    dspline: Vec<f32>,
    dbase: Vec<f32>,
    scratch: Scratch,
    threads: usize,
}

impl OnSlices {
    fn new(problem: &KanConv, isa: Isa, threads: usize) -> Result<Self> {
        let numbers = problem.numbers();
        let like = |values: &Vec<f32>| vec![0.0; values.len()];
        Ok(Self {
            isa,
            geometry: problem.geometry()?,
            shape: [problem.side; 2],
            pass: problem.pass,
            y: like(&numbers.g),
            dx: like(&numbers.x),
            dspline: like(&numbers.spline),
            dbase: like(&numbers.base),
            numbers,
            scratch: Scratch::new(),
            threads,
        })
    }
}

impl Repeat for OnSlices {
    fn once(&mut self) -> Result<()> {
        let Self { isa, geometry, shape, scratch, threads, .. } = self;
        let Numbers { x, spline, base, g } = &self.numbers;
        let weights = Weights { spline, base: Some(base), ..Weights::default() };
        conv_forward(*isa, geometry, weights, x, shape, &mut self.y, scratch, *threads)?;
        if self.pass == Pass::Training {
            let gradients = Gradients {
                x: Some(&mut self.dx),
                spline: Some(&mut self.dspline),
                base: Some(&mut self.dbase),
                ..Gradients::default()
            };
            conv_backward(*isa, geometry, weights, x, shape, g, gradients, scratch, *threads)?;
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let all =
            [("y", &self.y), ("dx", &self.dx), ("dspline", &self.dspline), ("dbase", &self.dbase)];
        Ok(all.into_iter().map(|(name, values)| (name.to_owned(), widened(values))).collect())
    }
}
