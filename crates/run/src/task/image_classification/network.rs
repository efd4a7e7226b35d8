//! A network of any kind, before its parameters are initialized.

use std::fmt;

use burn::tensor::{Device, Tensor};

use updraft_quant::Graph;

use super::ImagePlan;
use super::classifier::Classifier;
use super::data::ImageData;
use super::distill::Logits;
use super::predict::{ImageClassifier, InPrecision};
use super::prune::InitPruned;
use super::workload::Classification;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::{AnyModel, AnyWorkload, OnExamples, load};
use crate::task::LoadedModel;
use crate::task::capture_device::capture_device;

/// Operations on a network.
pub(super) trait Network {
    /// Creates the workload of network and images.
    fn with_data(self: Box<Self>, plan: ImagePlan, data: ImageData) -> Box<dyn AnyWorkload>;

    /// Combines it with its task.
    fn on_examples(self: Box<Self>, own: &ImagePlan) -> Box<dyn AnyModel>;

    /// The layers of the network for images `[3, height, width]`.
    fn graph(&self, image: [usize; 3]) -> Result<Graph, RunError>;

    /// The logits of the network of a run, in its precision.
    fn logits(&self, plan: &Plan, folder: &RunFolder, device: &Device) -> Result<Logits, RunError>;

    /// Loads the parameters of a run.
    fn serve(
        &self,
        own: &ImagePlan,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
        classes: Vec<String>,
    ) -> Result<Box<dyn LoadedModel>, RunError>;
}

/// Initializes a [`Classifier`].
pub(super) struct Uninitialized<N> {
    init: Box<dyn Fn(&Device) -> N>,
    pruned: Option<InitPruned<N>>,
}

impl<N> Uninitialized<N> {
    pub(super) fn new(init: impl Fn(&Device) -> N + 'static) -> Self {
        Self { init: Box::new(init), pruned: None }
    }

    /// A network that can be pruned: `source` initializes the same in f32, with a fraction of the
    /// channels left out.
    pub(super) fn prunable(
        init: impl Fn(&Device) -> N + 'static,
        source: impl Fn(&Device, f64) -> N + 'static,
    ) -> Self {
        Self { init: Box::new(init), pruned: Some(Box::new(source)) }
    }
}

impl<N> fmt::Debug for Uninitialized<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uninitialized").finish_non_exhaustive()
    }
}

impl<N: Classifier> Network for Uninitialized<N> {
    fn with_data(self: Box<Self>, plan: ImagePlan, data: ImageData) -> Box<dyn AnyWorkload> {
        let task = plan.classify();
        let Self { init, pruned } = *self;
        Box::new(Classification { plan, data, task, init, pruned })
    }

    fn on_examples(self: Box<Self>, own: &ImagePlan) -> Box<dyn AnyModel> {
        Box::new(OnExamples { task: own.classify(), init: self.init })
    }

    fn graph(&self, image: [usize; 3]) -> Result<Graph, RunError> {
        let network = (self.init)(&capture_device());
        Graph::try_capture(&network, image, N::classify).map_err(RunError::model)
    }

    fn logits(&self, plan: &Plan, folder: &RunFolder, device: &Device) -> Result<Logits, RunError> {
        let network = load((self.init)(device), plan, folder)?;
        let policy = plan.precision;
        Ok(Box::new(move |images: Tensor<4>| {
            policy.scope(|| network.classify(images.cast(policy.compute)))
        }))
    }

    fn serve(
        &self,
        own: &ImagePlan,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
        classes: Vec<String>,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let network = load((self.init)(device), plan, folder)?;
        let network = InPrecision::new(network, plan.precision);
        Ok(Box::new(ImageClassifier::new(network, &own.data, classes, device.clone())))
    }
}
