//! The workload of a network and its images.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use serde_json::{Value, json};
use updraft_data::{ImageSource, Subset, Views};
use updraft_integration::ContributionTable;

use super::ImagePlan;
use super::classifier::Classifier;
use super::classify::{ClassBatch, Classify, PlacedImages};
use super::data::{CLASSES, ImageData, check_classes, loaders, plain_loader};
use super::pictures::pictures;
use super::prune::InitPruned;
use super::quantizable::QuantizableClassifier;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::load_stored;
use crate::task::{
    About, Contributions, Int8Forward, Picture, Quantizable, StreamUse, Streams, Workload, resident,
};

/// The batch size of images that a new network is fitted to.
const FITTED_BATCH: usize = 64;

/// A network with its images.
pub(super) struct Classification<N> {
    pub(super) plan: ImagePlan,
    pub(super) data: ImageData,
    pub(super) task: Classify,
    /// Draws fresh parameters.
    pub(super) init: Box<dyn Fn(&Device) -> N>,
    /// The same in f32 with other widths, for a network that can be pruned.
    pub(super) pruned: Option<InitPruned<N>>,
}

impl<N: Classifier> Workload for Classification<N> {
    type Model = N;
    type Task = Classify;

    fn task(&self) -> &Classify {
        &self.task
    }

    fn init(&self, device: &Device) -> N {
        (self.init)(device)
    }

    fn prepare(&self, plan: &Plan, mut model: N, device: &Device) -> Result<N, RunError> {
        if let Some(encoder) = self.plan.model.encoder() {
            model = model.with_encoder_of(&encoder.checkpoint()?)?;
        }
        if let (Some(pruning), Some(init)) = (&self.plan.pruning, &self.pruned) {
            model = model.pruned_from(&pruning.load(init, device)?)?;
        }
        let images = N::FITTED_IMAGES.min(self.data.train.len());
        if images == 0 {
            return Ok(model);
        }
        // Spread over the whole set: folders and archives are in the order of classes.
        let train = self.data.train.clone();
        let chosen = (0..images).map(|at| at * train.len() / images).collect();
        let chosen = Arc::new(Subset::try_new(train, chosen)?);
        let loader = plain_loader(&self.plan.data, &plan.train, chosen, FITTED_BATCH.min(images))?;
        Ok(model.fit(&mut loader.epoch(0))?)
    }

    fn streams(
        &self,
        plan: &Plan,
        used_for: StreamUse<'_>,
    ) -> Result<Streams<ClassBatch>, RunError> {
        if let (Some(distillation), StreamUse::Training { device, .. }) =
            (&self.task.distillation, used_for)
        {
            distillation.load(device, &self.plan.data, self.data.classes())?;
        }
        let of_plan = (&plan.train, plan.seed);
        let loaders = loaders(&self.plan, of_plan, &self.data, used_for)?;
        resident::streams(loaders, &plan.train, used_for, PlacedImages::new)
    }

    fn about(&self) -> About {
        let (train, test) = (self.data.train.len(), self.data.test.len());
        let (height, width) = self.plan.data.size();
        let classes = self.data.classes().len();
        About {
            data: format!(
                "{train} training and {test} test images of {classes} classes, {height} x {width}"
            ),
            model: N::KIND.to_owned(),
            samples: "images",
            short: "img",
            notes: self.data.notes.clone(),
            train_samples: train,
            test_samples: test,
        }
    }

    fn signature(&self) -> Value {
        json!(self.data.classes())
    }

    fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        folder.write_bound_json(CLASSES, self.data.classes())?;
        if let Some(distillation) = &self.task.distillation {
            distillation.write(folder)?;
        }
        self.data.write_split(folder.path())
    }

    fn check(&self, folder: &RunFolder) -> Result<(), RunError> {
        check_classes(self.data.classes(), folder)
    }

    fn file_sets(&self) -> Vec<(&'static str, &dyn ImageSource)> {
        self.data.sets()
    }

    fn multiply_adds(&self, model: &N) -> Result<u64, &'static str> {
        let (height, width) = self.plan.data.size();
        Ok(model.multiply_adds([height, width]))
    }

    fn epoch_fields(&self, model: &N) -> Vec<(&'static str, Value)> {
        model.epoch_fields()
    }

    fn curves(&self, model: &N) -> Vec<(String, Vec<(String, String)>)> {
        model.curves()
    }

    fn into_quantizable(
        self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Quantizable>, RunError> {
        let network = load_stored((self.init)(device), plan, folder)?;
        let (train, seed, device) = (plan.train.clone(), plan.seed, device.clone());
        Ok(Box::new(QuantizableClassifier {
            own: self.plan,
            data: self.data,
            train,
            seed,
            network,
            device,
        }))
    }

    fn int8_forward(&self) -> Result<Int8Forward<Self>, &'static str> {
        Ok(match self.task.penalty {
            None => {
                Int8Forward::<Self>::Whole(|network, images| (network.forward(images), Vec::new()))
            }
            // The int8 network returns logits only: the penalty is that of the network in f32.
            Some(_) => Int8Forward::<Self>::Behind(|model, network, images| {
                let (_, weights) = model.classify_with_weights(images.clone());
                (network.forward(images), weights)
            }),
        })
    }

    fn averaged(&self, views: Views) -> Result<Classify, &'static str> {
        Ok(Classify { views: Some(views), ..self.task.clone() })
    }

    fn pictures(&self, plan: &Plan, model: &N, device: &Device) -> Result<Vec<Picture>, RunError> {
        Ok(self.pictures_and_contributions(plan, model, device)?.0)
    }

    fn pictures_and_contributions(
        &self,
        plan: &Plan,
        model: &N,
        device: &Device,
    ) -> Result<(Vec<Picture>, Option<Contributions>), RunError> {
        let [_, test] =
            loaders(&self.plan, (&plan.train, plan.seed), &self.data, StreamUse::Reading)?;
        let (policy, classes) = (plan.precision, self.data.classes());
        let mut table = ContributionTable::new(classes.len());
        let mut classify = |images: Tensor<4>, labels: &[usize]| {
            let images = images.cast(policy.compute);
            let (logits, contributions) =
                policy.scope(|| model.classify_with_contributions(images));
            table.add(&contributions, labels);
            logits
        };
        let pictures = pictures(&mut classify, &test, &*self.data.test, device)?;
        Ok((pictures, Contributions::of(classes, table.places())))
    }
}
