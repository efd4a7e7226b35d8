//! A network of any kind, before its parameters are initialized.

use std::time::Duration;

use burn::tensor::Device;

use super::ImagePlan;
use super::data::ImageData;
use super::eight_bits::EightBits;
use super::model::Classifier;
use super::predict::ImageClassifier;
use super::workload::Classification;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::{AnyWorkload, load, load_stored, rehearse};
use crate::task::{Quantizable, Serving};

/// Operations on a network; implemented for every function that initializes a [`Classifier`].
pub(super) trait Network {
    /// Creates the workload of network and images.
    fn with_data(self: Box<Self>, plan: ImagePlan, data: ImageData) -> Box<dyn AnyWorkload>;

    /// Trains two steps on example data.
    fn rehearse(
        &self,
        own: &ImagePlan,
        plan: &Plan,
        device: &Device,
        batch: usize,
    ) -> Result<[Duration; 2], RunError>;

    /// Loads the parameters of a run.
    fn serve(
        &self,
        own: &ImagePlan,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
        classes: Vec<String>,
    ) -> Result<Box<dyn Serving>, RunError>;

    /// Loads the parameters of a run in f32, together with its images.
    fn quantizable(
        &self,
        own: (ImagePlan, ImageData),
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Quantizable>, RunError>;
}

impl<N: Classifier, F: Fn(&Device) -> N + 'static> Network for F {
    fn with_data(self: Box<Self>, plan: ImagePlan, data: ImageData) -> Box<dyn AnyWorkload> {
        let task = plan.classify();
        Box::new(Classification { plan, data, task, init: self })
    }

    fn rehearse(
        &self,
        own: &ImagePlan,
        plan: &Plan,
        device: &Device,
        batch: usize,
    ) -> Result<[Duration; 2], RunError> {
        rehearse(&own.classify(), self, plan, device, batch)
    }

    fn serve(
        &self,
        own: &ImagePlan,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
        classes: Vec<String>,
    ) -> Result<Box<dyn Serving>, RunError> {
        let network = load(self(device), plan, folder)?;
        let policy = plan.precision;
        Ok(Box::new(ImageClassifier::new(network, &own.data, policy, classes, device.clone())))
    }

    fn quantizable(
        &self,
        (own, data): (ImagePlan, ImageData),
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Quantizable>, RunError> {
        let network = load_stored(self(device), plan, folder)?;
        let (train, seed, device) = (plan.train.clone(), plan.seed, device.clone());
        Ok(Box::new(EightBits { own, data, train, seed, network, device }))
    }
}
