//! A network of any kind, before its parameters are initialized.

use burn::tensor::{Device, Tensor};

use super::ImagePlan;
use super::classifier::Classifier;
use super::data::ImageData;
use super::distill::Logits;
use super::predict::{ImageClassifier, InPrecision};
use super::workload::Classification;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::{AnyModel, AnyWorkload, OnExamples, load};
use crate::task::LoadedModel;

/// Operations on a network; implemented for every function that initializes a [`Classifier`].
pub(super) trait Network {
    /// Creates the workload of network and images.
    fn with_data(self: Box<Self>, plan: ImagePlan, data: ImageData) -> Box<dyn AnyWorkload>;

    /// Combines it with its task.
    fn on_examples(self: Box<Self>, own: &ImagePlan) -> Box<dyn AnyModel>;

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

impl<N: Classifier, F: Fn(&Device) -> N + 'static> Network for F {
    fn with_data(self: Box<Self>, plan: ImagePlan, data: ImageData) -> Box<dyn AnyWorkload> {
        let task = plan.classify();
        Box::new(Classification { plan, data, task, init: self })
    }

    fn on_examples(self: Box<Self>, own: &ImagePlan) -> Box<dyn AnyModel> {
        Box::new(OnExamples { task: own.classify(), init: *self })
    }

    fn logits(&self, plan: &Plan, folder: &RunFolder, device: &Device) -> Result<Logits, RunError> {
        let network = load(self(device), plan, folder)?;
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
        let network = load(self(device), plan, folder)?;
        let network = InPrecision { network, policy: plan.precision };
        Ok(Box::new(ImageClassifier::new(network, &own.data, classes, device.clone())))
    }
}
