//! One optimizer step over the parameters of a network: by our optimizer and by burn's.

use anyhow::Result;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_integration::DualPathwayNet;
use updraft_trainer::OptimizerConfig;

use crate::formula;
use crate::network::{self, Network, Path};
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work};
use crate::strategy::Kernels;

pub(crate) const LEARNING_RATE: f64 = 1e-3;
pub(crate) const WEIGHT_DECAY: f32 = 0.01;
const BETA: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;

const MOMENTUM: f64 = 0.9;

/// The steps that a proof makes: from the second on, the moments matter.
const PROVED_STEPS: i32 = 3;

/// Which optimizer makes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Algorithm {
    Adamw,
    /// With Nesterov momentum.
    Sgd,
}

impl Algorithm {
    const fn name(self) -> &'static str {
        match self {
            Self::Adamw => "adamw",
            Self::Sgd => "sgd",
        }
    }

    fn of_burn(self) -> ModuleOptimizer {
        let momentum = MomentumConfig::new().with_momentum(MOMENTUM);
        match self {
            Self::Adamw => AdamWConfig::new()
                .with_weight_decay(WEIGHT_DECAY)
                .with_epsilon(EPSILON as f32)
                .init(),
            Self::Sgd => SgdConfig::new()
                .with_weight_decay(Some(WeightDecayConfig::new(WEIGHT_DECAY)))
                .with_momentum(Some(momentum.with_dampening(0.0).with_nesterov(true)))
                .init(),
        }
    }

    fn of_ours(self) -> ModuleOptimizer {
        let config = match self {
            Self::Adamw => {
                OptimizerConfig::Adamw { weight_decay: WEIGHT_DECAY, betas: [0.9, 0.999] }
            }
            Self::Sgd => OptimizerConfig::Sgd {
                momentum: MOMENTUM,
                weight_decay: WEIGHT_DECAY,
                norm_bias_factor: 1.0,
            },
        };
        config.init()
    }

    /// A parameter after the steps of a proof.
    fn updated(self, mut weight: f64, gradient: f64) -> f64 {
        let (mut first, mut second, decay) = (0.0, 0.0, f64::from(WEIGHT_DECAY));
        for step in 1..=PROVED_STEPS {
            match self {
                Self::Adamw => {
                    weight -= LEARNING_RATE * decay * weight;
                    first = BETA[0] * first + (1.0 - BETA[0]) * gradient;
                    second = BETA[1] * second + (1.0 - BETA[1]) * gradient * gradient;
                    let first = first / (1.0 - BETA[0].powi(step));
                    let second: f64 = second / (1.0 - BETA[1].powi(step));
                    weight -= LEARNING_RATE * first / (second.sqrt() + EPSILON);
                }
                Self::Sgd => {
                    let gradient = gradient + decay * weight;
                    first = MOMENTUM * first + gradient;
                    weight -= LEARNING_RATE * (gradient + MOMENTUM * first);
                }
            }
        }
        weight
    }

    /// Tensors that a step reads and writes.
    const fn accesses(self) -> u64 {
        match self {
            // Reads weight, gradient and two moments; writes weight and moments.
            Self::Adamw => 7,
            // Reads weight, gradient and velocity; writes weight and velocity.
            Self::Sgd => 5,
        }
    }
}

/// An optimizer with fixed gradients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OptimizerStep {
    pub(crate) algorithm: Algorithm,
    pub(crate) network: Network,
}

/// The gradient of a parameter: fixed numbers by its name.
fn gradient(path: &str, count: usize) -> Vec<f32> {
    formula::tensor(&format!("gradient of {path}"), count, 0.1)
}

impl Task for OptimizerStep {
    fn id(&self) -> String {
        format!("optimizer/{}-{}", self.algorithm.name(), self.network.id())
    }

    fn small(&self) -> Problem {
        Problem::Optimizer(Self { network: self.network.small(), ..self.clone() })
    }

    fn work(&self) -> Work {
        let count = self.network.parameter_count() as u64;
        let bytes = Some(4 * self.algorithm.accesses() * count);
        Work { operations: None, bytes, samples: None }
    }

    fn reference(&self) -> Result<Outputs> {
        let mut outputs = Outputs::new();
        for (path, start) in self.network.parameters()? {
            let gradients = gradient(&path, start.len());
            let updated = start.iter().zip(gradients).map(|(&weight, gradient)| {
                self.algorithm.updated(f64::from(weight), f64::from(gradient))
            });
            outputs.insert(path.clone(), updated.collect());
        }
        Ok(outputs)
    }

    fn tolerance(&self) -> f64 {
        1e-5
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let device = site.device.clone().autodiff();
        let model = self.network.on_burn(&device)?;
        let mut fill = Fill { path: Path::default(), gradients: GradientsParams::new() };
        model.visit(&mut fill);
        Ok(Box::new(OnBurn {
            model: Some(model),
            gradients: fill.gradients,
            optimizer: match site.kernels {
                Kernels::Burn => self.algorithm.of_burn(),
                _ => self.algorithm.of_ours(),
            },
            device,
        }))
    }
}

struct OnBurn {
    model: Option<DualPathwayNet>,
    gradients: GradientsParams,
    optimizer: ModuleOptimizer,
    device: Device,
}

impl OnBurn {
    fn step(&mut self) {
        let model = self.model.take().expect("a step gives the model back");
        // The optimizer consumes its arguments; the copies share their memory.
        let mut share = Share { from: &self.gradients, to: GradientsParams::new() };
        model.visit(&mut share);
        self.model = Some(self.optimizer.step(LEARNING_RATE, model, share.to));
    }
}

impl Repeat for OnBurn {
    fn once(&mut self) -> Result<()> {
        self.step();
        self.device.sync()?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        for _ in 0..PROVED_STEPS {
            self.step();
        }
        Ok(network::trained(self.model.as_ref().expect("a step gives the model back")))
    }
}

/// Sets the gradient of every trained parameter by formula.
struct Fill {
    path: Path,
    gradients: GradientsParams,
}

impl ModuleVisitor for Fill {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.path.is_trained() {
            let value = param.val().inner();
            let values = gradient(&self.path.joined(), value.dims().iter().product());
            let data = TensorData::new(values, value.dims());
            self.gradients.register(param.id, Tensor::<D>::from_data(data, &value.device()));
        }
    }
}

struct Share<'a> {
    from: &'a GradientsParams,
    to: GradientsParams,
}

impl ModuleVisitor for Share<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.from.get::<D>(param.id) {
            self.to.register(param.id, gradient);
        }
    }
}
