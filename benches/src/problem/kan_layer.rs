//! A Kolmogorov–Arnold layer: forward, and forward with all gradients.

use std::rc::Rc;
use std::sync::Arc;

use anyhow::Result;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_kan::roofline::LayerCost;
use updraft_kan::slices::reference::{self, Parameters};
use updraft_kan::slices::{
    Activation, Gradients, Grid, Isa, LayerGeometry, QuantizedLayer, QuantizedScratch, Scratch,
    Weights, backward, forward,
};
use updraft_kan::{CubeForm, KanLinear, KanLinearConfig, LayerPath, PackedKanLinear};
use updraft_simd::Products;

use crate::formula;
use crate::gpu::{self, BF16_SUFFIX, FLASHKAN, TF32_SUFFIX};
use crate::problem::kan_pass::{KanPass, parameter};
use crate::problem::{
    Outputs, Pass, Problem, Proof, Repeat, Site, Task, Work, error_of, kan_beside, numbers, widened,
};
use crate::strategy::{
    EXPANDED_LINEAR, GAUSSIANS, KAN_BF16, KAN_INT8, KAN_PACKED, Kernels, isa_named,
};

/// Cubic splines over equal intervals of `[−1, 1]`, with `SiLU`, base weights and factors, f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KanLayer {
    pub(crate) batch: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) intervals: usize,
    pub(crate) pass: Pass,
}

/// Input, coefficients, base weights, factors and the loss's factors.
struct Numbers {
    x: Vec<f32>,
    spline: Vec<f32>,
    base: Vec<f32>,
    scaler: Vec<f32>,
    g: Vec<f32>,
}

impl KanLayer {
    const DEGREE: usize = 3;

    pub(crate) fn bases(&self) -> usize {
        self.intervals + Self::DEGREE
    }

    fn geometry(&self) -> Result<LayerGeometry> {
        let grid = Grid::uniform(-1.0, 1.0, self.intervals, Self::DEGREE)?;
        Ok(LayerGeometry::try_new(grid, self.inputs, self.outputs, Activation::Silu)?)
    }

    /// A tenth of the samples lie outside the domain.
    fn numbers(&self) -> Numbers {
        let Self { batch, inputs, outputs, .. } = *self;
        let scale = formula::weight_scale(inputs);
        Numbers {
            x: formula::tensor("x", batch * inputs, 1.1),
            spline: formula::tensor("spline", inputs * self.bases() * outputs, scale),
            base: formula::tensor("base", inputs * outputs, scale),
            scaler: formula::tensor("scaler", inputs * outputs, 1.0),
            g: formula::tensor("g", batch * outputs, 1.0),
        }
    }
}

impl KanLayer {
    /// Whether the kernels multiply bf16 if they are asked to.
    pub(crate) fn multiplies_bf16(&self) -> bool {
        let weights = Weights { base: Some(&[]), scaler: Some(&[]), ..Weights::default() };
        self.geometry().is_ok_and(|geometry| {
            let geometry = geometry.with_products(Products::Bf16);
            geometry.multiplies_bf16(Isa::detect(), &weights, self.batch)
        })
    }

    /// The kernels of a form on a GPU; `None` if it does not compute the layer.
    pub(crate) fn cost(&self, form: CubeForm) -> Option<LayerCost> {
        let weights = Weights { base: Some(&[]), scaler: Some(&[]), ..Weights::default() };
        LayerCost::of(form, &self.geometry().ok()?, &weights, self.batch)
    }

    /// By the documented error of [`QuantizedLayer`].
    fn compare_int8(&self, outputs: &Outputs, right: &Outputs) -> Result<Proof> {
        let Numbers { x, spline, scaler, .. } = self.numbers();
        let [x, spline, scaler] = [x, spline, scaler].map(|v| widened(&v));
        let splines = Parameters { spline, scaler, ..Parameters::default() };
        let splines = reference::forward(&self.geometry()?, &splines, &x);
        // Checks that they can be compared.
        error_of(outputs, right)?;
        let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
        let away = squares(&mut outputs["y"].iter().zip(&right["y"]).map(|(a, b)| a - b));
        let error = (away / squares(&mut splines.into_iter())).sqrt();
        Ok(Proof { error, tolerance: 1e-2 })
    }
}

impl Task for KanLayer {
    fn id(&self) -> String {
        let Self { batch, inputs, outputs, intervals, pass } = self;
        format!("kan/{}-b{batch}-{inputs}to{outputs}-g{intervals}", pass.name())
    }

    fn small(&self) -> Problem {
        /// Samples and outputs with which every unit multiplies bf16.
        const LARGE: usize = 512;
        let inputs = self.inputs.min(70);
        // What is checked has to take the path that is timed.
        let (batch, outputs) = if self.multiplies_bf16() {
            (self.batch.min(LARGE), self.outputs.min(LARGE))
        } else {
            (33, self.outputs.min(70))
        };
        Problem::KanLayer(Self { batch, inputs, outputs, ..self.clone() })
    }

    fn work(&self) -> Work {
        let Self { batch, inputs, outputs, .. } = *self;
        // What the definition needs: the bases that differ from zero, and the base branch.
        let products = batch * inputs * outputs * (Self::DEGREE + 2);
        let (x, y) = (batch * inputs, batch * outputs);
        let weights = inputs * outputs * (self.bases() + 2);
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
        let Numbers { x, spline, base, scaler, g } = self.numbers();
        let [x, spline, base, scaler, g] = [x, spline, base, scaler, g].map(|v| widened(&v));
        let geometry = self.geometry()?;
        let parameters = Parameters { spline, base, scaler, bias: Vec::new() };
        let y = reference::forward(&geometry, &parameters, &x);
        let mut outputs = Outputs::from([("y".to_owned(), y)]);
        if self.pass == Pass::Training {
            let of = reference::backward(&geometry, &parameters, &x, &g);
            let Parameters { spline, base, scaler, .. } = of.parameters;
            let all = [("dx", of.x), ("dspline", spline), ("dbase", base), ("dscaler", scaler)];
            outputs.extend(all.map(|(name, values)| (name.to_owned(), values)));
        }
        Ok(outputs)
    }

    fn tolerance(&self) -> f64 {
        1e-5
    }

    fn compare(&self, strategy: &str, outputs: &Outputs, reference: &Outputs) -> Result<Proof> {
        let error = match strategy {
            EXPANDED_LINEAR => error_of(outputs, &kan_beside::expanded_linear(self))?,
            GAUSSIANS => error_of(outputs, &kan_beside::gaussians(self))?,
            _ if strategy.ends_with(BF16_SUFFIX) => {
                return Ok(Proof { error: error_of(outputs, reference)?, tolerance: 2e-2 });
            }
            // Differences of the cubes of up to 26 intervals, in f32: 1e-3 on a processor.
            _ if strategy.starts_with(FLASHKAN) => {
                return Ok(Proof { error: error_of(outputs, reference)?, tolerance: 5e-3 });
            }
            // burn multiplies in TF32 where a card has it.
            _ if strategy == "cuda"
                || strategy.ends_with(TF32_SUFFIX)
                || strategy.ends_with("-expanded") =>
            {
                return Ok(Proof { error: error_of(outputs, reference)?, tolerance: 2e-3 });
            }
            _ if strategy == format!("updraft-{KAN_INT8}") => {
                return self.compare_int8(outputs, reference);
            }
            _ => error_of(outputs, reference)?,
        };
        Ok(Proof { error, tolerance: self.tolerance() })
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let path = match site.kernels {
            Kernels::Forced(KAN_INT8) => return Ok(Box::new(InBytes::new(self, site.threads)?)),
            Kernels::Forced(KAN_BF16) => {
                let isa = Isa::detect();
                return Ok(Box::new(OnSlices::new(self, isa, Products::Bf16, site.threads)?));
            }
            Kernels::Forced(KAN_PACKED) => return Ok(Box::new(Packed::new(self, &site.device)?)),
            Kernels::Forced(name) if gpu::form_named(name).is_some() => {
                gpu::form_named(name).map(LayerPath::CubeIn)
            }
            Kernels::Forced(name) => {
                let isa = isa_named(name)?;
                return Ok(Box::new(OnSlices::new(self, isa, Products::F32, site.threads)?));
            }
            Kernels::Ours => None,
            Kernels::Burn => Some(LayerPath::Plain),
        };
        let Self { batch, inputs, outputs, pass, .. } = *self;
        let device = pass.device(&site.device);
        let layer = self.layer(&device);
        let layer = Rc::new(match path {
            Some(path) => layer.with_path(path),
            None => layer,
        });
        let Numbers { x, g, .. } = self.numbers();
        let given = [(x, [batch, inputs]), (g, [batch, outputs])];
        let repeated = KanPass::new(&layer, KanLinear::forward, given, (pass, &device))
            .with("dspline", Some(&layer.spline))
            .with("dbase", layer.base.as_ref())
            .with("dscaler", layer.scaler.as_ref());
        Ok(Box::new(repeated))
    }
}

impl KanLayer {
    fn layer(&self, device: &Device) -> KanLinear {
        let Self { inputs, outputs, intervals, .. } = *self;
        let Numbers { spline, base, scaler, .. } = self.numbers();
        let config = KanLinearConfig::new(inputs, outputs).with_intervals(intervals);
        let mut layer = config.init(device);
        layer.spline = parameter(spline, [inputs, self.bases(), outputs], device);
        layer.base = Some(parameter(base, [inputs, outputs], device));
        layer.scaler = Some(parameter(scaler, [inputs, outputs], device));
        layer
    }
}

/// Inference with weights that are packed before the clock starts.
struct Packed {
    layer: PackedKanLinear,
    x: Tensor<2>,
}

impl Packed {
    fn new(problem: &KanLayer, device: &Device) -> Result<Self> {
        anyhow::ensure!(problem.pass == Pass::Forward, "packed layers are for inference");
        let x = TensorData::new(problem.numbers().x, [problem.batch, problem.inputs]);
        Ok(Self { layer: problem.layer(device).pack(), x: Tensor::from_data(x, device) })
    }
}

impl Repeat for Packed {
    fn once(&mut self) -> Result<()> {
        let _outputs = self.layer.forward(self.x.clone());
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let y = numbers(self.layer.forward(self.x.clone()));
        Ok(Outputs::from([("y".to_owned(), y)]))
    }
}

struct OnSlices {
    isa: Isa,
    geometry: Arc<LayerGeometry>,
    pass: Pass,
    numbers: Numbers,
    y: Vec<f32>,
    dx: Vec<f32>,
    dspline: Vec<f32>,
    dbase: Vec<f32>,
    dscaler: Vec<f32>,
    scratch: Scratch,
    threads: usize,
}

impl OnSlices {
    fn new(problem: &KanLayer, isa: Isa, products: Products, threads: usize) -> Result<Self> {
        let numbers = problem.numbers();
        let like = |values: &Vec<f32>| vec![0.0; values.len()];
        Ok(Self {
            isa,
            geometry: Arc::new(problem.geometry()?.with_products(products)),
            pass: problem.pass,
            y: like(&numbers.g),
            dx: like(&numbers.x),
            dspline: like(&numbers.spline),
            dbase: like(&numbers.base),
            dscaler: like(&numbers.scaler),
            numbers,
            scratch: Scratch::new(),
            threads,
        })
    }
}

impl Repeat for OnSlices {
    fn once(&mut self) -> Result<()> {
        let Self { isa, geometry, scratch, threads, .. } = self;
        let Numbers { x, spline, base, scaler, g } = &self.numbers;
        let weights = Weights { spline, base: Some(base), scaler: Some(scaler), bias: None };
        forward(*isa, geometry, weights, x, &mut self.y, scratch, *threads)?;
        if self.pass == Pass::Training {
            let gradients = Gradients {
                x: Some(&mut self.dx),
                spline: Some(&mut self.dspline),
                base: Some(&mut self.dbase),
                scaler: Some(&mut self.dscaler),
                bias: None,
            };
            backward(*isa, geometry, weights, x, g, gradients, scratch, *threads)?;
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let all = [
            ("y", &self.y),
            ("dx", &self.dx),
            ("dspline", &self.dspline),
            ("dbase", &self.dbase),
            ("dscaler", &self.dscaler),
        ];
        Ok(all.into_iter().map(|(name, values)| (name.to_owned(), widened(values))).collect())
    }
}

/// Inference with coefficients that are quantized before the clock starts.
struct InBytes {
    layer: QuantizedLayer,
    x: Vec<f32>,
    y: Vec<f32>,
    scratch: QuantizedScratch,
    threads: usize,
}

impl InBytes {
    fn new(problem: &KanLayer, threads: usize) -> Result<Self> {
        anyhow::ensure!(problem.pass == Pass::Forward, "eight bits are for inference");
        let Numbers { x, spline, base, scaler, g } = problem.numbers();
        let weights =
            Weights { spline: &spline, base: Some(&base), scaler: Some(&scaler), bias: None };
        let layer = QuantizedLayer::try_new(&problem.geometry()?, weights)?;
        let y = vec![0.0; g.len()];
        Ok(Self { layer, x, y, scratch: QuantizedScratch::default(), threads })
    }
}

impl Repeat for InBytes {
    fn once(&mut self) -> Result<()> {
        let Self { layer, x, y, scratch, threads } = self;
        Ok(layer.forward(Isa::detect(), x, y, scratch, *threads)?)
    }

    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        Ok(Outputs::from([("y".to_owned(), widened(&self.y))]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tolerance_of_a_peer_is_that_of_its_arithmetic() {
        let problem =
            KanLayer { batch: 5, inputs: 3, outputs: 2, intervals: 5, pass: Pass::Forward };
        let right = problem.reference().unwrap();
        let tolerance =
            |strategy: &str| problem.compare(strategy, &right, &right).unwrap().tolerance;
        for (strategy, expected) in [
            ("pytorch-compiled", 1e-5),
            ("onnxruntime", 1e-5),
            ("pytorch-compiled-tf32", 2e-3),
            ("onnxruntime-tf32", 2e-3),
            ("flashkan", 5e-3),
            ("flashkan-tf32", 5e-3),
            ("flashkan-bf16", 2e-2),
            ("pytorch-compiled-bf16", 2e-2),
        ] {
            assert_eq!(tolerance(strategy), expected, "{strategy}");
        }
    }

    #[test]
    fn int8_is_within_a_hundredth_of_the_splines() {
        let problem =
            KanLayer { batch: 9, inputs: 20, outputs: 6, intervals: 5, pass: Pass::Forward };
        let right = problem.reference().unwrap();
        let compare = |factor: f64| {
            let y = right["y"].iter().map(|y| y * factor).collect();
            let outputs = Outputs::from([("y".to_owned(), y)]);
            problem.compare("updraft-int8", &outputs, &right).unwrap()
        };
        assert!(compare(1.0).error < 1e-12);
        let wrong = compare(1.05);
        assert!(wrong.error > wrong.tolerance, "{wrong:?}");
    }
}
