//! The dual autoencoder: one training step, or inference without a graph.

use anyhow::Result;
use burn::module::Module;
use burn::tensor::{DType, Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_models::{DualAutoencoder, DualAutoencoderConfig};
use updraft_trainer::{Losses, StepContext, StepSettings, StreamError, mean_squared_error};

use crate::formula;
use crate::network::ByFormula;
use crate::problem::repeated::{Inference, Steps, ToF64, reference_losses};
use crate::problem::{Outputs, Pass, Problem, Repeat, Site, Task, Work, numbers};

/// The steps that a proof makes: the last losses depend on every gradient before.
const PROVED_STEPS: usize = 3;

/// An autoencoder with the default settings on images by formula, f32: inference, or a step with
/// the mean squared error and `AdamW`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DualAutoencoderPass {
    pub(crate) widths: [usize; 3],
    pub(crate) latent: usize,
    pub(crate) batch: usize,
    /// Both sides of the images.
    pub(crate) side: usize,
    pub(crate) pass: Pass,
}

impl DualAutoencoderPass {
    fn network(&self, device: &Device) -> Result<DualAutoencoder> {
        let config = DualAutoencoderConfig::new().with_widths(self.widths).with_latent(self.latent);
        config.validate()?;
        config.check_image([self.side; 2])?;
        Ok(config.init(device).map(&mut ByFormula::default()))
    }

    /// Values from 0 to 1, which the network's sigmoid reaches.
    fn images(&self, device: &Device, dtype: DType) -> Tensor<4> {
        let shape = [self.batch, 3, self.side, self.side];
        let mut values = formula::tensor("images", shape.iter().product(), 0.5);
        values.iter_mut().for_each(|value| *value += 0.5);
        Tensor::from_data(TensorData::new(values, shape).convert_dtype(dtype), (device, dtype))
    }

    fn device(&self, device: &Device) -> Device {
        match self.pass {
            Pass::Forward => device.clone(),
            Pass::Training => device.clone().autodiff(),
        }
    }
}

impl Task for DualAutoencoderPass {
    fn id(&self) -> String {
        let Self { widths: [wide, ..], batch, side, pass, .. } = self;
        let pass = if *pass == Pass::Forward { "inference" } else { "training" };
        format!("dual-autoencoder/{pass}-w{wide}-b{batch}-{side}px")
    }

    /// Batch norm over the channel weights of two images would only keep their order.
    fn small(&self) -> Problem {
        let small = Self { widths: [8, 6, 4], latent: 4, batch: 6, side: 24, pass: self.pass };
        Problem::DualAutoencoder(small)
    }

    fn work(&self) -> Work {
        let passes = if self.pass == Pass::Training { 3 } else { 1 };
        let of_image = self.network(&Device::flex()).map(|net| net.multiply_adds([self.side; 2]));
        Work {
            operations: of_image.ok().map(|products| 2 * passes * self.batch as u64 * products),
            bytes: None,
            samples: Some(self.batch as u64),
        }
    }

    /// The same network in f64 on flex, where burn's own operations compute it.
    fn reference(&self) -> Result<Outputs> {
        let device = self.device(&Device::flex());
        let model = self.network(&device)?.map(&mut ToF64);
        let images = self.images(&device, DType::F64);
        if self.pass == Pass::Forward {
            return Ok(Outputs::from([("y".to_owned(), numbers(model.forward(images)))]));
        }
        Ok(reference_losses(model, PROVED_STEPS, |model| {
            (model.forward(images.clone()) - images.clone()).powi_scalar(2).mean()
        }))
    }

    fn tolerance(&self) -> f64 {
        1e-4
    }

    fn reports_memory(&self) -> bool {
        true
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let device = self.device(&site.device);
        let model = self.network(&device)?;
        let images = self.images(&device, DType::F32);
        Ok(match self.pass {
            Pass::Forward => {
                let forward = Box::new(move || model.forward(images.clone()));
                Box::new(Inference { forward, device })
            }
            Pass::Training => {
                let task = Reconstruct { side: self.side };
                let batch = (images.clone(), images);
                let settings = StepSettings::default();
                Box::new(Steps::new(task, model, batch, settings, device, PROVED_STEPS))
            }
        })
    }
}

/// The mean squared error of images and their reconstruction.
struct Reconstruct {
    side: usize,
}

impl updraft_trainer::Task<DualAutoencoder> for Reconstruct {
    /// The tensors themselves: they are on the device once and for all.
    type Batch = (Tensor<4>, Tensor<4>);
    type Input = Tensor<4>;
    type Target = Tensor<4>;
    type Output = Tensor<4>;
    type Score = ();

    fn place(&self, batch: Self::Batch, _: &Device) -> Result<Self::Batch, StreamError> {
        Ok(batch)
    }

    fn forward(&self, model: &DualAutoencoder, images: Tensor<4>, _: &StepContext) -> Tensor<4> {
        model.forward(images)
    }

    fn loss(&self, output: &Tensor<4>, images: &Tensor<4>) -> Losses {
        mean_squared_error(output.clone(), images.clone()).into()
    }

    fn samples(&self, images: &Tensor<4>) -> usize {
        images.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> Self::Batch {
        let images = Tensor::ones([batch, 3, self.side, self.side], device);
        (images.clone(), images)
    }
}
