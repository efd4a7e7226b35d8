//! Batch normalization in training: with the batch's statistics, forward and backward.

use anyhow::Result;
use burn::tensor::module::batch_norm_train;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_conv::Activation;
use updraft_conv::slices::{
    BatchNormShape, Isa, NormGradients, Normalization, Scratch, Statistics, batch_norm,
    batch_norm_gradient,
};

use crate::formula;
use crate::problem::{Outputs, Pass, Problem, Repeat, Site, Task, Work, widened};
use crate::strategy::{Kernels, isa_named};

const EPSILON: f64 = 1e-5;

/// `y = (x − mean)/√(variance + ε)·γ + β` over `[batch, channels, side, side]`, f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BatchNorm {
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    pub(crate) side: usize,
    pub(crate) pass: Pass,
}

impl BatchNorm {
    fn shape(&self) -> [usize; 4] {
        [self.batch, self.channels, self.side, self.side]
    }

    fn count(&self) -> usize {
        self.shape().iter().product()
    }

    /// Input, scale, shift and the loss's factors.
    fn inputs(&self) -> [Vec<f32>; 4] {
        let gamma = formula::tensor("gamma", self.channels, 0.5);
        [
            formula::tensor("x", self.count(), 1.0),
            gamma.iter().map(|value| value + 1.0).collect(),
            formula::tensor("beta", self.channels, 0.5),
            formula::tensor("g", self.count(), 1.0),
        ]
    }

    /// The flat indices of one channel.
    fn channel(&self, channel: usize) -> impl Iterator<Item = usize> + Clone {
        let (channels, pixels) = (self.channels, self.side * self.side);
        (0..self.batch)
            .flat_map(move |n| (0..pixels).map(move |p| (n * channels + channel) * pixels + p))
    }
}

impl Task for BatchNorm {
    fn id(&self) -> String {
        let Self { batch, channels, side, pass } = self;
        format!("batch-norm/{}-b{batch}-{channels}ch-{side}px", pass.name())
    }

    fn small(&self) -> Problem {
        // Feature maps of few pixels stay such.
        Problem::BatchNorm(Self { batch: 3, side: self.side.min(7), ..self.clone() })
    }

    fn work(&self) -> Work {
        // Statistics and result read x once each at best; the gradient reads x and g twice.
        let moved = match self.pass {
            Pass::Forward => 2,
            Pass::Training => 2 + 3,
        };
        Work {
            operations: None,
            bytes: Some(4 * moved * self.count() as u64),
            samples: Some(self.batch as u64),
        }
    }

    fn reference(&self) -> Result<Outputs> {
        let [x, gamma, beta, g] =
            self.inputs().map(|v| v.into_iter().map(f64::from).collect::<Vec<_>>());
        let count = (self.batch * self.side * self.side) as f64;
        let mut y = vec![0.0; x.len()];
        let mut dx = vec![0.0; x.len()];
        let (mut dgamma, mut dbeta) = (vec![0.0; self.channels], vec![0.0; self.channels]);
        for c in 0..self.channels {
            let indices = self.channel(c);
            let mean = indices.clone().map(|i| x[i]).sum::<f64>() / count;
            let variance = indices.clone().map(|i| (x[i] - mean).powi(2)).sum::<f64>() / count;
            let spread = (variance + EPSILON).sqrt();
            let normal = |i: usize| (x[i] - mean) / spread;
            dbeta[c] = indices.clone().map(|i| g[i]).sum();
            dgamma[c] = indices.clone().map(|i| g[i] * normal(i)).sum();
            for i in indices {
                y[i] = normal(i) * gamma[c] + beta[c];
                let centred = g[i] - dbeta[c] / count - normal(i) * dgamma[c] / count;
                dx[i] = gamma[c] / spread * centred;
            }
        }
        let mut outputs = Outputs::from([("y".to_owned(), y)]);
        if self.pass == Pass::Training {
            let gradients = [("dx", dx), ("dgamma", dgamma), ("dbeta", dbeta)];
            outputs.extend(gradients.map(|(name, values)| (name.to_owned(), values)));
        }
        Ok(outputs)
    }

    fn tolerance(&self) -> f64 {
        1e-5
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let device = self.pass.device(&site.device);
        if let Kernels::Forced(name) = site.kernels {
            let isa = isa_named(name)?;
            return Ok(Box::new(OnSlices::new(self, isa, site.threads)));
        }
        let [x, gamma, beta, g] = self.inputs();
        let image = |values| Tensor::from_data(TensorData::new(values, self.shape()), &device);
        let vector = |values| Tensor::from_data(TensorData::new(values, [self.channels]), &device);
        Ok(Box::new(OnBurn {
            x: image(x),
            gamma: vector(gamma),
            beta: vector(beta),
            g: image(g),
            pass: self.pass,
            is_ours: site.kernels == Kernels::Ours,
            device,
        }))
    }
}

struct OnBurn {
    x: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    g: Tensor<4>,
    pass: Pass,
    is_ours: bool,
    device: Device,
}

struct Results {
    y: Tensor<4>,
    gradients: Option<(Tensor<4>, Tensor<1>, Tensor<1>)>,
}

impl OnBurn {
    fn normalize(&self, x: Tensor<4>, gamma: Tensor<1>, beta: Tensor<1>) -> Tensor<4> {
        if self.is_ours {
            let activation = Activation::Identity;
            updraft_conv::batch_norm_train(x, gamma, beta, EPSILON, activation).output
        } else {
            batch_norm_train(x, gamma, beta, EPSILON).output
        }
    }

    fn run(&self) -> Results {
        let (x, gamma, beta) = (self.x.clone(), self.gamma.clone(), self.beta.clone());
        if self.pass == Pass::Forward {
            let y = self.normalize(x, gamma, beta);
            return Results { y, gradients: None };
        }
        let (x, gamma, beta) = (x.require_grad(), gamma.require_grad(), beta.require_grad());
        let y = self.normalize(x.clone(), gamma.clone(), beta.clone());
        let mut gradients = (y.clone() * self.g.clone()).sum().backward();
        let takes_part = "it takes part in the loss";
        let dx = x.grad_remove(&mut gradients).expect(takes_part);
        let dgamma = gamma.grad_remove(&mut gradients).expect(takes_part);
        let dbeta = beta.grad_remove(&mut gradients).expect(takes_part);
        Results { y: y.inner(), gradients: Some((dx, dgamma, dbeta)) }
    }
}

impl Repeat for OnBurn {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.run());
        self.device.sync()?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let Results { y, gradients } = self.run();
        let mut outputs = Outputs::from([("y".to_owned(), super::numbers(y))]);
        if let Some((dx, dgamma, dbeta)) = gradients {
            outputs.insert("dx".to_owned(), super::numbers(dx));
            outputs.insert("dgamma".to_owned(), super::numbers(dgamma));
            outputs.insert("dbeta".to_owned(), super::numbers(dbeta));
        }
        Ok(outputs)
    }
}

/// Our kernels without burn, into existing memory.
struct OnSlices {
    isa: Isa,
    shape: BatchNormShape,
    pass: Pass,
    inputs: [Vec<f32>; 4],
    y: Vec<f32>,
    dx: Vec<f32>,
    /// Mean, variance, and the gradients of γ and β.
    vectors: [Vec<f32>; 4],
    scratch: Scratch,
    threads: usize,
}

impl OnSlices {
    fn new(problem: &BatchNorm, isa: Isa, threads: usize) -> Self {
        let BatchNorm { batch, channels, side, pass } = *problem;
        let shape = BatchNormShape { batch, channels, pixels: side * side };
        Self {
            isa,
            shape,
            pass,
            inputs: problem.inputs(),
            y: vec![0.0; shape.len()],
            dx: vec![0.0; shape.len()],
            vectors: [(); 4].map(|()| vec![0.0; channels]),
            scratch: Scratch::new(),
            threads,
        }
    }
}

impl Repeat for OnSlices {
    fn once(&mut self) -> Result<()> {
        let Self { isa, shape, inputs: [x, gamma, beta, g], y, dx, vectors, scratch, .. } = self;
        let activation = Activation::Identity;
        let by = Normalization { gamma, beta, epsilon: EPSILON, residual: None, activation };
        let [mean, variance, dgamma, dbeta] = vectors;
        let threads = self.threads;
        let statistics = Statistics { mean: &mut *mean, variance: &mut *variance };
        batch_norm(*isa, *shape, by, x, y, statistics, scratch, threads);
        if self.pass == Pass::Training {
            let gradients = NormGradients { dx, dgamma, dbeta, dresidual: None };
            let statistics = [&mean[..], &variance[..]];
            batch_norm_gradient(*isa, *shape, by, statistics, x, g, gradients, scratch, threads);
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        self.once()?;
        let [_, _, dgamma, dbeta] = &self.vectors;
        let all = [("y", &self.y), ("dx", &self.dx), ("dgamma", dgamma), ("dbeta", dbeta)];
        Ok(all.into_iter().map(|(name, values)| (name.to_owned(), widened(values))).collect())
    }
}
