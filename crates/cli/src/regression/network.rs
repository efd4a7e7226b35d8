//! The networks that a regression's plan can name.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::silu;
use burn::tensor::{Device, Tensor};
use updraft_kan::Kan;

use crate::config::RegressorPlan;

/// A network that a regression trains.
pub(super) trait Regressor: Module {
    /// The name of its kind in a configuration.
    const KIND: &'static str;

    /// One number a row, `[rows, 1]`, of `[rows, inputs]`.
    fn outputs(&self, x: Tensor<2>) -> Tensor<2>;
}

impl Regressor for Kan {
    const KIND: &'static str = "kan";

    fn outputs(&self, x: Tensor<2>) -> Tensor<2> {
        self.forward(x)
    }
}

/// Linear layers with `SiLU` between them.
#[derive(Module, Debug)]
pub(super) struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    /// Layers from the first width to the last.
    pub(super) fn new(widths: &[usize], device: &Device) -> Self {
        let layers = widths.windows(2).map(|pair| LinearConfig::new(pair[0], pair[1]));
        Self { layers: layers.map(|layer| layer.init(device)).collect() }
    }
}

impl Regressor for Mlp {
    const KIND: &'static str = "mlp";

    fn outputs(&self, x: Tensor<2>) -> Tensor<2> {
        let (last, hidden) = self.layers.split_last().expect("two widths make a layer");
        last.forward(hidden.iter().fold(x, |x, layer| silu(layer.forward(x))))
    }
}

/// What is done with a network of whichever kind.
pub(super) trait With {
    /// What comes of it.
    type Output;

    /// Does it.
    fn with<M: Regressor>(self, network: M) -> Self::Output;
}

/// Does something with the fresh network of a plan.
pub(super) fn with_network<W: With>(
    plan: &RegressorPlan,
    inputs: usize,
    device: &Device,
    work: W,
) -> W::Output {
    match plan.kan(inputs) {
        Some(config) => work.with(config.init(device)),
        None => work.with(Mlp::new(&plan.widths(inputs), device)),
    }
}
