//! Inference of the dual-pathway network: as it is trained, and with norms and gates in its weights.

use anyhow::{Result, bail};
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_integration::FoldOptions;

use crate::network::Network;
use crate::problem::dual_pathway::reference;
use crate::problem::repeated::Inference;
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work};
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

/// The side of images of which a network of stem stride 2 has as many tiles in both stages as
/// Winograd's algorithm needs on every processor: larger images are not proved.
const ENOUGH_PIXELS: usize = 96;

/// Logits of images by formula, f32, with norms and gates as after a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FoldedNetwork {
    pub(crate) network: Network,
    pub(crate) batch: usize,
}

impl Task for FoldedNetwork {
    fn id(&self) -> String {
        let Network { channels, stem_stride, side, .. } = self.network;
        format!("dual-pathway-folded/c{channels}-s{stem_stride}-{side}px-b{}", self.batch)
    }

    fn small(&self) -> Problem {
        let side = self.network.side.min(ENOUGH_PIXELS);
        Problem::FoldedNetwork(Self { network: Network { side, ..self.network }, batch: 2 })
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

    fn reference(&self) -> Result<Outputs> {
        let images = self.network.images("images", self.batch);
        Ok(Outputs::from([("y".to_owned(), reference::logits(&self.network, &images))]))
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
        let model = self.network.in_evaluation(&device)?;
        let shape = [self.batch, 3, self.network.side, self.network.side];
        let images = TensorData::new(self.network.images("images", self.batch), shape);
        let images = Tensor::<4>::from_data(images, &device);
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
