//! The dual-pathway network of the benchmarks, with weights by formula.

use std::collections::BTreeMap;

use anyhow::Result;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_integration::{DualPathwayConfig, DualPathwayNet};

use crate::formula;
use crate::problem::numbers;

/// The shape of a shallow dual-pathway network for square images, integrated after both stages: early
/// and late.
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

/// The network for photographs whose forward pass the MWNN project timed, in batches of 8.
pub(crate) const PHOTOGRAPHS: Network =
    Network { channels: 32, stem_stride: 1, classes: 1000, side: 224 };

/// The channels from which 3 × 3 convolutions of large images take Winograd's algorithm on every
/// processor.
const MANY_CHANNELS: usize = 32;

impl Network {
    pub(crate) fn id(&self) -> String {
        let Self { channels, stem_stride, side, .. } = self;
        format!("dual-pathway-c{channels}-s{stem_stride}-{side}px")
    }

    /// A network of the same kind that is quick to prove.
    pub(crate) fn small(&self) -> Self {
        Self { channels: 4, side: 12, ..*self }
    }

    /// A network that is quick to train; one of many channels computes the convolutions of its
    /// first stage by Winograd's algorithm, as that of large images does.
    pub(crate) fn small_in_training(&self) -> Self {
        match self.channels {
            MANY_CHANNELS.. => Self { channels: MANY_CHANNELS, side: 16, ..*self },
            _ => self.small(),
        }
    }

    /// A network whose convolutions are computed as those of large images in all stages, and that
    /// is quick to evaluate.
    pub(crate) fn small_in_evaluation(&self) -> Self {
        Self { channels: self.channels.min(MANY_CHANNELS), side: 32, ..*self }
    }

    /// Images by their name, `[count, 3, side, side]`, as normalized ones are spread.
    pub(crate) fn images(&self, name: &str, count: usize) -> Vec<f32> {
        formula::tensor(name, count * 3 * self.side * self.side, 1.7)
    }

    /// The network on a device, its weights by formula: uniform and scaled by their fan-in.
    pub(crate) fn on_burn(&self, device: &Device) -> Result<DualPathwayNet> {
        let config = DualPathwayConfig::new(self.classes, self.channels);
        let config = config.with_stem_stride(self.stem_stride);
        config.validate()?;
        Ok(config.init(device).map(&mut ByFormula::default()))
    }

    /// The same as after a training: norms, their statistics and blends by formula, too.
    pub(crate) fn in_evaluation(&self, device: &Device) -> Result<DualPathwayNet> {
        Ok(self.on_burn(device)?.map(&mut AsTrained::default()))
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
        with_values(param, formula::tensor(&path, dims.iter().product(), scale))
    }
}

/// Sets scales, shifts and running statistics of norms, and logits of blends, to values by their
/// paths.
#[derive(Default)]
struct AsTrained(Path);

impl ModuleMapper for AsTrained {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.0.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.0.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match trained_values(&self.0.joined(), param.dims().iter().product()) {
            Some(values) => with_values(param, values),
            None => param,
        }
    }
}

/// The numbers of a norm or of a blend's logits after a training, by their path; `None` for other
/// parameters.
pub(crate) fn trained_values(path: &str, count: usize) -> Option<Vec<f32>> {
    let (center, spread) = match path.rsplit('.').next() {
        Some("gamma" | "running_var") => (1.0, 0.25),
        Some("beta" | "running_mean") => (0.0, 0.25),
        Some("logits") => (0.0, 1.0),
        _ => return None,
    };
    let mut values = formula::tensor(path, count, spread);
    values.iter_mut().for_each(|value| *value += center);
    Some(values)
}

fn with_values<const D: usize>(param: Param<Tensor<D>>, values: Vec<f32>) -> Param<Tensor<D>> {
    let dims = param.dims();
    param.map(|old| {
        let data = TensorData::new(values, dims);
        Tensor::from_data(data, &old.device()).set_require_grad(old.is_require_grad())
    })
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

#[cfg(test)]
mod tests {
    use updraft_conv::slices::{Algorithm, ConvGeometry, ConvShape, Isa, Pass, strategy};

    use super::*;

    /// Channels and kernel of the convolutions of a network of 32 channels, stem to last stage, with
    /// the stride and what the sides of their inputs are divided by.
    const CONVOLUTIONS: [([usize; 2], usize, usize, usize); 10] = [
        ([3, 32], 3, 1, 1),
        ([1, 32], 3, 1, 1),
        ([32, 32], 3, 1, 1),
        ([64, 32], 1, 1, 1),
        ([32, 32], 1, 1, 1),
        ([32, 64], 3, 2, 1),
        ([32, 64], 1, 2, 1),
        ([64, 64], 3, 1, 2),
        ([128, 64], 1, 1, 2),
        ([64, 64], 1, 1, 2),
    ];

    fn geometry(
        batch: usize,
        channels: [usize; 2],
        side: usize,
        [kernel, stride]: [usize; 2],
    ) -> ConvGeometry {
        let shape = ConvShape::new(batch, channels, [side; 2], [kernel; 2]);
        let shape = ConvShape { padding: [kernel / 2; 2], stride: [stride; 2], ..shape };
        ConvGeometry::try_new(shape).expect("valid")
    }

    #[test]
    fn convolutions_of_the_small_network_are_computed_as_those_of_photographs() {
        let small = PHOTOGRAPHS.small_in_evaluation();
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            for (channels, kernel, stride, divisor) in CONVOLUTIONS {
                let algorithm = |batch: usize, side: usize| {
                    let geometry = geometry(batch, channels, side / divisor, [kernel, stride]);
                    strategy(isa, &geometry, Pass::Forward).algorithm
                };
                let [proved, timed] = [algorithm(2, small.side), algorithm(8, PHOTOGRAPHS.side)];
                assert_eq!(proved, timed, "{isa} {channels:?} {kernel} {stride}");
            }
        }
    }

    #[test]
    fn a_small_network_of_many_channels_trains_by_winograds_algorithm() {
        let small = PHOTOGRAPHS.small_in_training();
        let geometry = geometry(4, [small.channels; 2], small.side, [3, 1]);
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            for pass in Pass::ALL {
                assert_eq!(strategy(isa, &geometry, pass).algorithm, Algorithm::Winograd);
            }
        }
        assert_eq!(CIFAR10.small_in_training(), CIFAR10.small());
    }
}
