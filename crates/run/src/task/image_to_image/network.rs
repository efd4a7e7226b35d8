//! A network of any kind and rank, before its parameters are initialized.

use burn::tensor::Device;
use updraft_quant::Graph;

use super::ImagePlan;
use super::image_network::ImageNetwork;
use super::predict::{ImageConverter, InPrecision};
use super::workload::Conversion;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::{AnyModel, AnyWorkload, OnExamples, load};
use crate::task::LoadedModel;
use crate::task::capture_device::capture_device;
use crate::task::image_pairs::data::{ImagePairs, Shape};

/// Operations on a network.
pub(super) trait Network {
    /// Creates the workload of network and images.
    fn with_data(self: Box<Self>, plan: ImagePlan, data: ImagePairs) -> Box<dyn AnyWorkload>;

    /// Combines it with its task.
    fn on_examples(self: Box<Self>, own: &ImagePlan, shape: &Shape) -> Box<dyn AnyModel>;

    /// The layers of the network for windows `[channels, …sides]`.
    fn graph(&self, window: &[usize]) -> Result<Graph, RunError>;

    /// Loads the parameters of a run.
    fn serve(
        &self,
        own: &ImagePlan,
        shape: &Shape,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError>;
}

/// A function that initializes a network of `D` axes.
pub(super) struct Initializer<const D: usize, F>(pub(super) F);

impl<const D: usize, N: ImageNetwork<D>, F: Fn(&Device) -> N + 'static> Network
    for Initializer<D, F>
{
    fn with_data(self: Box<Self>, plan: ImagePlan, data: ImagePairs) -> Box<dyn AnyWorkload> {
        let task = plan.convert(&data.shape).of_rank::<D>();
        Box::new(Conversion { plan, data, task, init: Box::new(self.0) })
    }

    fn on_examples(self: Box<Self>, own: &ImagePlan, shape: &Shape) -> Box<dyn AnyModel> {
        Box::new(OnExamples { task: own.convert(shape).of_rank::<D>(), init: self.0 })
    }

    fn graph(&self, window: &[usize]) -> Result<Graph, RunError> {
        (self.0)(&capture_device()).capture(window)
    }

    fn serve(
        &self,
        own: &ImagePlan,
        shape: &Shape,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let network = load((self.0)(device), plan, folder)?;
        let model = folder.served_checkpoint(plan)?.display().to_string();
        let network = InPrecision::<D, N>::new(network, plan.precision);
        Ok(Box::new(ImageConverter {
            network,
            own: own.clone(),
            shape: shape.clone(),
            model,
            device: device.clone(),
        }))
    }
}
