//! The dual-pathway network of the benchmarks, with weights by formula.

use std::collections::BTreeMap;

use anyhow::Result;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_integration::{DualPathwayConfig, DualPathwayNet};

use crate::formula;
use crate::problem::numbers;

/// The shape of a shallow dual-pathway network for square images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    pub(crate) channels: usize,
    pub(crate) stem_stride: usize,
    pub(crate) classes: usize,
    /// Height and width of the images, in pixels.
    pub(crate) side: usize,
}

/// The network of `configs/cifar10.toml`.
pub(crate) const CIFAR10: Network = Network { channels: 16, stem_stride: 2, classes: 10, side: 32 };

impl Network {
    pub(crate) fn id(&self) -> String {
        let Self { channels, stem_stride, side, .. } = self;
        format!("dual-pathway-c{channels}-s{stem_stride}-{side}px")
    }

    /// A network of the same kind that is quick to prove.
    pub(crate) fn small(&self) -> Self {
        Self { channels: 4, side: 12, ..*self }
    }

    /// The network on a device, its weights by formula: uniform and scaled by their fan-in.
    pub(crate) fn on_burn(&self, device: &Device) -> Result<DualPathwayNet> {
        let config = DualPathwayConfig::new(self.classes, self.channels);
        let config = config.with_stem_stride(self.stem_stride);
        config.validate()?;
        Ok(config.init(device).map(&mut ByFormula::default()))
    }

    /// The network's trained parameters by their paths, before the first step.
    pub(crate) fn parameters(&self) -> Result<BTreeMap<String, Vec<f32>>> {
        let trained = trained(&self.on_burn(&Device::flex())?);
        let narrow = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
        Ok(trained.into_iter().map(|(path, values)| (path, narrow(values))).collect())
    }

    /// The number of parameters.
    pub(crate) fn parameter_count(&self) -> usize {
        self.on_burn(&Device::flex()).map_or(0, |model| model.parameter_count())
    }
}

/// The values of a network's trained parameters by their paths.
pub(crate) fn trained(model: &DualPathwayNet) -> BTreeMap<String, Vec<f64>> {
    let mut list = List { path: Path::default(), found: BTreeMap::new() };
    model.visit(&mut list);
    list.found
}

/// The position of a visitor in a module.
#[derive(Debug, Default)]
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

/// Sets convolutions, linear layers and the coefficients of splines to values by their paths.
#[derive(Default)]
pub(crate) struct ByFormula(Path);

impl ModuleMapper for ByFormula {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.0.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.0.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let dims = param.dims();
        let path = self.0.joined();
        // Norms keep their initial 1 and 0, blends their logits, splines their factors.
        let scale = match D {
            4 => formula::weight_scale(dims[1..].iter().product()),
            3 => 1.0,
            2 if path.ends_with(".scaler") => return param,
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
    found: BTreeMap<String, Vec<f64>>,
}

impl ModuleVisitor for List {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.path.is_trained() {
            self.found.insert(self.path.joined(), numbers(param.val()));
        }
    }
}
