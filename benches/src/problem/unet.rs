//! A U-Net: one training step, or inference without a graph.

use anyhow::{Result, ensure};
use burn::module::{Module, ModuleDisplay};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_models::{SpatialLayers, UNet};
use updraft_trainer::{
    Losses, SegmentedPass, Segments, StepContext, StepSettings, StreamError, mean_squared_error,
};

use crate::formula;
use crate::problem::repeated::{Inference, Steps, ToF64, reference_losses};
use crate::problem::{Outputs, Pass, Problem, Repeat, Site, Task, Work, numbers};
use crate::strategy::{Kernels, RECOMPUTE};
use crate::volume_network::{EitherNet, VolumeNetwork};

/// The steps that a proof makes: the last losses depend on every gradient before.
const PROVED_STEPS: usize = 3;

/// A U-Net on images or volumes by formula, f32: inference, or a step with the mean squared error
/// and `AdamW`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct UNetPass {
    pub(crate) network: VolumeNetwork,
    pub(crate) batch: usize,
    /// Every side of the input.
    pub(crate) side: usize,
    pub(crate) pass: Pass,
}

impl UNetPass {
    fn count(&self) -> usize {
        self.batch * self.side.pow(self.network.axes as u32)
    }

    /// Input and target, each `[batch, 1, …sides]`.
    fn tensors<const D: usize>(&self, device: &Device, dtype: DType) -> [Tensor<D>; 2] {
        let mut shape = [self.side; D];
        (shape[0], shape[1]) = (self.batch, 1);
        ["images", "targets"].map(|name| {
            let values = formula::tensor(name, self.count(), 1.7);
            let data = TensorData::new(values, shape).convert_dtype(dtype);
            Tensor::from_data(data, (device, dtype))
        })
    }

    fn prepared<C, U, const D: usize>(
        &self,
        model: UNet<C, U>,
        device: Device,
        in_segments: bool,
    ) -> Box<dyn Repeat>
    where
        C: SpatialLayers<D, Transposed = U> + ModuleDisplay + 'static,
        U: Module + ModuleDisplay + 'static,
    {
        let [images, targets] = self.tensors(&device, DType::F32);
        match self.pass {
            Pass::Forward => {
                let forward = Box::new(move || model.forward(images.clone()));
                Box::new(Inference { forward, device })
            }
            Pass::Training => {
                let task = Restore { segments: model.segments(), side: self.side };
                let settings = StepSettings { in_segments, ..StepSettings::default() };
                let batch = (images, targets);
                Box::new(Steps::new(task, model, batch, settings, device, PROVED_STEPS))
            }
        }
    }

    fn reference_of<C, U, const D: usize>(&self, model: UNet<C, U>, device: &Device) -> Outputs
    where
        C: SpatialLayers<D, Transposed = U> + ModuleDisplay,
        U: Module + ModuleDisplay,
    {
        let model = model.map(&mut ToF64);
        let [images, targets] = self.tensors::<D>(device, DType::F64);
        if self.pass == Pass::Forward {
            return Outputs::from([("y".to_owned(), numbers(model.forward(images)))]);
        }
        reference_losses(model, PROVED_STEPS, |model| {
            (model.forward(images.clone()) - targets.clone()).powi_scalar(2).mean()
        })
    }

    fn device(&self, device: &Device) -> Device {
        match self.pass {
            Pass::Forward => device.clone(),
            Pass::Training => device.clone().autodiff(),
        }
    }
}

impl Task for UNetPass {
    fn id(&self) -> String {
        let Self { network, batch, side, pass } = self;
        let pass = if *pass == Pass::Forward { "inference" } else { "training" };
        format!("unet/{pass}-{}-b{batch}-{side}px", network.id())
    }

    fn small(&self) -> Problem {
        let network = self.network.small();
        Problem::UNet(Self { network, batch: 2, side: 12, pass: self.pass })
    }

    fn work(&self) -> Work {
        let passes = if self.pass == Pass::Training { 3 } else { 1 };
        let products = self.batch as u64 * self.network.multiply_adds(self.side);
        Work {
            operations: Some(2 * passes * products),
            bytes: None,
            samples: Some(self.batch as u64),
        }
    }

    /// The same network in f64 on flex, where burn's own operations compute it.
    fn reference(&self) -> Result<Outputs> {
        let device = self.device(&Device::flex());
        Ok(match self.network.on_burn(&device)? {
            EitherNet::Images(model) => self.reference_of(model, &device),
            EitherNet::Volumes(model) => self.reference_of(model, &device),
        })
    }

    fn tolerance(&self) -> f64 {
        1e-4
    }

    fn reports_memory(&self) -> bool {
        true
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let in_segments = match site.kernels {
            Kernels::Forced(RECOMPUTE) => true,
            Kernels::Burn => false,
            other => anyhow::bail!("a U-Net has no strategy {other:?}"),
        };
        ensure!(
            !in_segments || self.pass == Pass::Training,
            "inference keeps no activations to compute again"
        );
        let device = self.device(&site.device);
        Ok(match self.network.on_burn(&device)? {
            EitherNet::Images(model) => self.prepared(model, device, in_segments),
            EitherNet::Volumes(model) => self.prepared(model, device, in_segments),
        })
    }
}

/// The mean squared error of images or volumes.
struct Restore<const D: usize> {
    segments: usize,
    side: usize,
}

impl<C, U, const D: usize> updraft_trainer::Task<UNet<C, U>> for Restore<D>
where
    C: SpatialLayers<D, Transposed = U> + ModuleDisplay,
    U: Module + ModuleDisplay,
{
    /// The tensors themselves: they are on the device once and for all.
    type Batch = (Tensor<D>, Tensor<D>);
    type Input = Tensor<D>;
    type Target = Tensor<D>;
    type Output = Tensor<D>;
    type Score = ();

    fn place(&self, batch: Self::Batch, _: &Device) -> Result<Self::Batch, StreamError> {
        Ok(batch)
    }

    fn forward(&self, model: &UNet<C, U>, images: Tensor<D>, _: &StepContext) -> Tensor<D> {
        model.forward(images)
    }

    fn loss(&self, output: &Tensor<D>, targets: &Tensor<D>) -> Losses {
        mean_squared_error(output.clone(), targets.clone()).into()
    }

    fn samples(&self, targets: &Tensor<D>) -> usize {
        targets.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> Self::Batch {
        let mut shape = [self.side; D];
        (shape[0], shape[1]) = (batch, 1);
        (Tensor::ones(shape, device), Tensor::zeros(shape, device))
    }

    fn segments(
        &self,
    ) -> Result<&dyn SegmentedPass<UNet<C, U>, Tensor<D>, Tensor<D>>, &'static str> {
        Ok(self)
    }
}

impl<C, U, const D: usize> SegmentedPass<UNet<C, U>, Tensor<D>, Tensor<D>> for Restore<D>
where
    C: SpatialLayers<D, Transposed = U> + ModuleDisplay,
    U: Module + ModuleDisplay,
{
    fn backward(
        &self,
        model: &UNet<C, U>,
        input: Tensor<D>,
        loss: &mut dyn FnMut(Tensor<D>) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams {
        let segments = Segments {
            count: self.segments,
            enter: &|model: &UNet<C, U>, images| model.enter(images),
            segment: &|model: &UNet<C, U>, index, flow| model.segment(index, flow),
            leave: &|model: &UNet<C, U>, flow| model.leave(flow),
        };
        segments.backward(model, input, loss, seed)
    }
}
