//! One training step: forward, cross-entropy, backward, optimizer, and the loss read back.

use anyhow::Result;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_integration::DualPathwayNet;
use updraft_trainer::{Losses, StepContext, StepSettings, StreamError, cross_entropy};

use crate::gpu::{BF16_SUFFIX, BF16_TOLERANCE};
use crate::network::Network;
use crate::problem::repeated::{Steps, ToF64, reference_losses};
use crate::problem::{Outputs, Problem, Proof, Repeat, Site, Task, Work, error_of};

/// The steps that a proof makes: the last losses depend on every gradient before.
const PROVED_STEPS: usize = 4;

/// A step of the dual-pathway network with `AdamW`, f32, on images by formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrainStep {
    pub(crate) network: Network,
    pub(crate) batch: usize,
}

impl TrainStep {
    fn images(&self) -> TensorData {
        let shape = [self.batch, 3, self.network.side, self.network.side];
        TensorData::new(self.network.images("images", self.batch), shape)
    }

    fn labels(&self) -> TensorData {
        let classes = self.network.classes;
        let labels = (0..self.batch).map(|index| (index * 7 % classes) as i64).collect();
        TensorData::new::<i64, _>(labels, [self.batch])
    }
}

impl Task for TrainStep {
    fn id(&self) -> String {
        format!("train/{}-b{}", self.network.id(), self.batch)
    }

    fn small(&self) -> Problem {
        let network = self.network.small_in_training();
        // The reference in f64 of many channels takes seconds for more samples.
        let batch = if network == self.network.small() { 12 } else { 4 };
        Problem::TrainStep(Self { network, batch })
    }

    fn work(&self) -> Work {
        Work { operations: None, bytes: None, samples: Some(self.batch as u64) }
    }

    /// The same network in f64 on flex; independent of flex only through the peers, which are
    /// other programs and have to agree with it.
    fn reference(&self) -> Result<Outputs> {
        let device = Device::flex().autodiff();
        let model = self.network.on_burn(&device)?.map(&mut ToF64);
        let images = Tensor::<4>::from_data(self.images().convert::<f64>(), (&device, DType::F64));
        let labels = Tensor::<1, Int>::from_data(self.labels(), &device);
        let criterion = CrossEntropyLossConfig::new().init(&device);
        Ok(reference_losses(model, PROVED_STEPS, |model| {
            criterion.forward(model.forward(images.clone()), labels.clone())
        }))
    }

    fn tolerance(&self) -> f64 {
        1e-4
    }

    /// burn and PyTorch multiply in TF32 where a card has it, and steps add up what that rounds.
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
        let device = site.device.clone().autodiff();
        let task = Classify { side: self.network.side };
        let model = self.network.on_burn(&device)?;
        let images = Tensor::from_data(self.images(), &device);
        let batch = (images, Tensor::from_data(self.labels(), &device));
        let settings = StepSettings::default();
        Ok(Box::new(Steps::new(task, model, batch, settings, device, PROVED_STEPS)))
    }
}

/// Cross-entropy of images and their classes.
struct Classify {
    side: usize,
}

impl updraft_trainer::Task<DualPathwayNet> for Classify {
    /// The tensors themselves: they are on the device once and for all.
    type Batch = (Tensor<4>, Tensor<1, Int>);
    type Input = Tensor<4>;
    type Target = Tensor<1, Int>;
    type Output = Tensor<2>;
    type Score = ();

    fn place(&self, batch: Self::Batch, _: &Device) -> Result<Self::Batch, StreamError> {
        Ok(batch)
    }

    fn forward(&self, model: &DualPathwayNet, images: Tensor<4>, _: &StepContext) -> Tensor<2> {
        model.forward(images)
    }

    fn loss(&self, logits: &Tensor<2>, labels: &Tensor<1, Int>) -> Losses {
        cross_entropy(logits.clone(), labels.clone(), 0.0).into()
    }

    fn samples(&self, labels: &Tensor<1, Int>) -> usize {
        labels.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> Self::Batch {
        let images = Tensor::ones([batch, 3, self.side, self.side], device);
        (images, Tensor::zeros([batch], device))
    }
}
