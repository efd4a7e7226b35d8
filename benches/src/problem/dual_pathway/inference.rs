//! The forward pass of the dual-pathway network, whose norms have running statistics.

use anyhow::Result;
use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::reference;
use crate::gpu::{BF16_SUFFIX, BF16_TOLERANCE};
use crate::network::Network;
use crate::problem::repeated::Inference;
use crate::problem::{Outputs, Problem, Proof, Repeat, Site, Task, Work, error_of};

/// A forward pass without a graph, f32, on images by formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DualPathwayInference {
    pub(crate) network: Network,
    pub(crate) batch: usize,
}

impl Task for DualPathwayInference {
    fn id(&self) -> String {
        format!("infer/{}-b{}", self.network.id(), self.batch)
    }

    fn small(&self) -> Problem {
        let network = self.network.small_in_evaluation();
        Problem::DualPathwayInference(Self { network, batch: 2 })
    }

    fn work(&self) -> Work {
        Work { operations: None, bytes: None, samples: Some(self.batch as u64) }
    }

    fn reference(&self) -> Result<Outputs> {
        let images = self.network.images("images", self.batch);
        Ok(Outputs::from([("y".to_owned(), reference::logits(&self.network, &images))]))
    }

    fn tolerance(&self) -> f64 {
        1e-4
    }

    /// burn and PyTorch multiply in TF32 where a card has it.
    fn tolerance_on_gpu(&self) -> f64 {
        2e-2
    }

    fn compare(&self, strategy: &str, outputs: &Outputs, reference: &Outputs) -> Result<Proof> {
        let tolerance = match strategy.ends_with(BF16_SUFFIX) {
            true => BF16_TOLERANCE,
            false => self.tolerance(),
        };
        Ok(Proof { error: error_of(outputs, reference)?, tolerance })
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let device = site.device.clone();
        let model = self.network.in_evaluation(&device)?;
        let shape = [self.batch, 3, self.network.side, self.network.side];
        let images = TensorData::new(self.network.images("images", self.batch), shape);
        let images = Tensor::<4>::from_data(images, &device);
        let forward = Box::new(move || model.forward(images.clone()));
        Ok(Box::new(Inference { forward, device }))
    }
}
