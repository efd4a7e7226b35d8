//! Inference of the dual-pathway network: as it is trained, and with norms and gates in its weights.

use anyhow::{Result, bail};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_integration::{DualPathwayNet, FoldOptions};

use crate::formula;
use crate::network::{Network, Path};
use crate::problem::repeated::{Inference, ToF64};
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work, numbers};
use crate::strategy::Kernels;

/// The norms in the weights, and gates with weighted sums.
const NORMS: &str = "folded-norms";

/// The norms and the weights of the gates in the weights.
const GATES: &str = "folded-gates";

/// The same with the convolutions of both pathways in one of two groups.
const GROUPED: &str = "folded-grouped";

/// The forms of the network, by the names of their strategies, with a description.
pub(crate) const FORMS: [(&str, &str); 3] = [
    (NORMS, "our network with its norms in the convolutions"),
    (GATES, "our network with its norms and gate weights in the convolutions"),
    (GROUPED, "the same with the convolutions of both pathways in one of two groups"),
];

/// Logits of images by formula, f32, with norms and gates as after a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FoldedNetwork {
    pub(crate) network: Network,
    pub(crate) batch: usize,
}

impl FoldedNetwork {
    fn model(&self, device: &Device) -> Result<DualPathwayNet> {
        Ok(self.network.on_burn(device)?.map(&mut AsTrained::default()))
    }

    fn images(&self, device: &Device, dtype: DType) -> Tensor<4> {
        let shape = [self.batch, 3, self.network.side, self.network.side];
        let values = formula::tensor("images", shape.iter().product(), 1.7);
        Tensor::from_data(TensorData::new(values, shape).convert_dtype(dtype), (device, dtype))
    }
}

impl Task for FoldedNetwork {
    fn id(&self) -> String {
        let Network { channels, stem_stride, side, .. } = self.network;
        format!("dual-pathway-folded/c{channels}-s{stem_stride}-{side}px-b{}", self.batch)
    }

    fn small(&self) -> Problem {
        Problem::FoldedNetwork(Self { network: self.network.small(), batch: 3 })
    }

    fn work(&self) -> Work {
        let side = self.network.side;
        let model = self.network.on_burn(&Device::flex());
        let of_image = model.map(|model| model.multiply_adds([side; 2]));
        Work {
            operations: of_image.ok().map(|products| 2 * self.batch as u64 * products),
            bytes: None,
            samples: Some(self.batch as u64),
        }
    }

    /// The network as it is trained, in f64 on flex, where burn's own operations compute it.
    fn reference(&self) -> Result<Outputs> {
        let device = Device::flex();
        let model = self.model(&device)?.map(&mut ToF64);
        let logits = model.forward(self.images(&device, DType::F64));
        Ok(Outputs::from([("y".to_owned(), numbers(logits))]))
    }

    fn tolerance(&self) -> f64 {
        1e-4
    }

    fn tolerance_on_gpu(&self) -> f64 {
        2e-2
    }

    fn reports_memory(&self) -> bool {
        true
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let device = site.device.clone();
        let (model, images) = (self.model(&device)?, self.images(&device, DType::F32));
        let options = match site.kernels {
            Kernels::Burn => {
                let forward = Box::new(move || model.forward(images.clone()));
                return Ok(Box::new(Inference { forward, device }));
            }
            Kernels::Forced(NORMS) => FoldOptions { gate_weights: false, grouped: false },
            Kernels::Forced(GATES) => FoldOptions { gate_weights: true, grouped: false },
            Kernels::Forced(GROUPED) => FoldOptions { gate_weights: true, grouped: true },
            other => bail!("the network has no strategy {other:?}"),
        };
        let folded = model.folded_by(options);
        let forward = Box::new(move || folded.forward(images.clone()));
        Ok(Box::new(Inference { forward, device }))
    }
}

/// Sets norms and the logits of gates, which would be the same in every channel and pathway.
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
        let path = self.0.joined();
        let name = path.rsplit('.').next().unwrap_or_default();
        let (middle, spread) = match name {
            "running_mean" | "beta" => (0.0, 0.3),
            "running_var" | "gamma" => (1.0, 0.5),
            "logits" => (0.0, 1.0),
            _ => return param,
        };
        param.map(|old| {
            let dims = old.dims();
            let values = formula::tensor(&path, dims.iter().product(), spread);
            let values: Vec<f32> = values.into_iter().map(|value| middle + value).collect();
            Tensor::from_data(TensorData::new(values, dims), &old.device())
        })
    }
}
