//! A U-Net applied to a whole picture or volume by windows that overlap, blended by Gaussians.

use anyhow::{Result, bail};
use burn::module::{Module, ModuleDisplay};
use burn::tensor::{DType, Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use updraft_data::SlidingWindow;
use updraft_models::{SpatialLayers, UNet};

use crate::formula;
use crate::problem::repeated::ToF64;
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work, numbers};
use crate::volume_network::{EitherNet, VolumeNetwork};

/// The standard deviation of the weights, as a share of a window's side.
const SIGMA: f64 = 0.125;

/// The least weight.
const FLOOR: f64 = 1e-3;

/// The overlap of a window with the one before.
const OVERLAP: f64 = 0.25;

/// One picture or volume with equal sides, f32, in memory; so is the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sliding {
    pub(crate) network: VolumeNetwork,
    /// Every side of the picture or volume.
    pub(crate) side: usize,
    /// Every side of a window.
    pub(crate) window: usize,
    /// The batch size of the windows.
    pub(crate) batch: usize,
}

impl Sliding {
    fn tensor<const D: usize>(&self, device: &Device, dtype: DType) -> Tensor<D> {
        let mut shape = [self.side; D];
        (shape[0], shape[1]) = (1, 1);
        let values = formula::tensor("volume", shape.iter().product(), 1.7);
        let data = TensorData::new(values, shape).convert_dtype(dtype);
        Tensor::from_data(data, (device, dtype))
    }

    /// Where windows begin along an axis.
    fn starts(&self) -> Vec<usize> {
        let step = ((self.window as f64 * (1.0 - OVERLAP)) as usize).max(1);
        let last = self.side - self.window;
        let mut starts: Vec<usize> = (0..last).step_by(step).collect();
        starts.push(last);
        starts
    }

    fn prepared<C, U, const D: usize>(&self, model: UNet<C, U>, device: &Device) -> Box<dyn Repeat>
    where
        C: SpatialLayers<D, Transposed = U> + ModuleDisplay + 'static,
        U: Module + ModuleDisplay + 'static,
    {
        let sliding = SlidingWindow::new(&vec![self.window; D - 2])
            .with_overlap(&[OVERLAP])
            .with_batch(self.batch);
        Box::new(OnBurn { model, sliding, volume: self.tensor(device, DType::F32) })
    }

    /// Every window separately, blended value by value.
    fn reference_of<C, U, const D: usize>(&self, model: UNet<C, U>, device: &Device) -> Vec<f64>
    where
        C: SpatialLayers<D, Transposed = U> + ModuleDisplay,
        U: Module + ModuleDisplay,
    {
        let model = model.map(&mut ToF64);
        let volume = self.tensor::<D>(device, DType::F64);
        let (side, window, axes) = (self.side, self.window, D - 2);
        let bell = |at: usize| {
            let away = at as f64 - (window as f64 - 1.0) / 2.0;
            (-(away / (SIGMA * window as f64)).powi(2) / 2.0).exp()
        };
        let starts = self.starts();
        let count = side.pow(axes as u32);
        let (mut sums, mut weights) = (vec![0.0; count], vec![0.0; count]);
        for number in 0..starts.len().pow(axes as u32) {
            let place = digits(number, starts.len(), axes);
            let first: Vec<usize> = place.iter().map(|&at| starts[at]).collect();
            let ranges: [std::ops::Range<usize>; D] = std::array::from_fn(|axis| match axis {
                0 | 1 => 0..1,
                _ => first[axis - 2]..first[axis - 2] + window,
            });
            let seen = numbers(model.forward(volume.clone().slice(ranges)));
            for (index, value) in seen.into_iter().enumerate() {
                let inside = digits(index, window, axes);
                let weight = inside.iter().map(|&at| bell(at)).product::<f64>().max(FLOOR);
                let place = first.iter().zip(&inside);
                let at = place.fold(0, |at, (first, inside)| at * side + first + inside);
                sums[at] += weight * value;
                weights[at] += weight;
            }
        }
        sums.iter().zip(weights).map(|(sum, weight)| sum / weight).collect()
    }
}

/// The digits of a number, the highest first.
fn digits(number: usize, base: usize, count: usize) -> Vec<usize> {
    (0..count).rev().map(|place| number / base.pow(place as u32) % base).collect()
}

impl Task for Sliding {
    fn id(&self) -> String {
        let Self { network, side, window, batch } = self;
        format!("sliding/{}-{side}px-window{window}-b{batch}", network.id())
    }

    fn small(&self) -> Problem {
        let network = self.network.small();
        // The last window is moved back, and covers more of the one before.
        Problem::Sliding(Self { network, side: 21, window: 12, batch: self.batch.min(3) })
    }

    fn work(&self) -> Work {
        let windows = (self.starts().len() as u64).pow(self.network.axes as u32);
        Work {
            operations: Some(2 * windows * self.network.multiply_adds(self.window)),
            bytes: None,
            samples: Some(windows),
        }
    }

    /// The network in f64 on flex, by burn's own operations; the weights are MONAI's.
    fn reference(&self) -> Result<Outputs> {
        let device = Device::flex();
        let y = match self.network.on_burn(&device)? {
            EitherNet::Images(model) => self.reference_of(model, &device),
            EitherNet::Volumes(model) => self.reference_of(model, &device),
        };
        Ok(Outputs::from([("y".to_owned(), y)]))
    }

    fn tolerance(&self) -> f64 {
        1e-4
    }

    fn reports_memory(&self) -> bool {
        true
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        if self.window > self.side {
            bail!("a window of {} is larger than a side of {}", self.window, self.side);
        }
        Ok(match self.network.on_burn(&site.device)? {
            EitherNet::Images(model) => self.prepared(model, &site.device),
            EitherNet::Volumes(model) => self.prepared(model, &site.device),
        })
    }
}

struct OnBurn<C: Module, U: Module, const D: usize> {
    model: UNet<C, U>,
    sliding: SlidingWindow,
    volume: Tensor<D>,
}

impl<C, U, const D: usize> OnBurn<C, U, D>
where
    C: SpatialLayers<D, Transposed = U> + ModuleDisplay,
    U: Module + ModuleDisplay,
{
    fn run(&self) -> Result<Tensor<D>> {
        Ok(self.sliding.apply(self.volume.clone(), |windows| self.model.forward(windows))?)
    }
}

impl<C, U, const D: usize> Repeat for OnBurn<C, U, D>
where
    C: SpatialLayers<D, Transposed = U> + ModuleDisplay,
    U: Module + ModuleDisplay,
{
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.run()?);
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        Ok(Outputs::from([("y".to_owned(), numbers(self.run()?))]))
    }
}
