//! Masked images: the masked patches of images and volumes from the visible ones.

mod masks;
mod model;
mod pictures;
mod predict;
mod reconstruct;
mod score;
mod workload;

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde_json::Value;
use updraft_trainer::{MetricSpec, metric_specs};

use self::model::ModelPlan;
use self::predict::Reconstructor;
use self::reconstruct::Reconstruct;
use self::workload::Reconstruction;
use super::image_pairs::augment::{self, AugmentPlan};
use super::image_pairs::data::{self, ImagePairs, Shape};
use super::image_pairs::data_plan::{self, DataPlan};
use super::image_pairs::objective::{ImageLoss, Objective};
use super::image_pairs::prediction_files;
use super::kind::{Opening, Predictor, Quantizer, TaskKind, TaskPlan};
use super::loaded_model::{FilePrediction, LoadedModel};
use super::pretrained::refuse_other_window;
use crate::config::{ConfigError, Keys, Plan, Settings, TaskDefault, TrainPlan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::{AnyModel, AnyWorkload, OnExamples, load};

/// The images are their own target; the loss is that of [`Reconstruct`].
const OBJECTIVE: Objective = Objective::Images { loss: Some(ImageLoss::MeanSquaredError) };

/// The task.
#[derive(Debug)]
pub(super) struct MaskedImages;

impl TaskKind for MaskedImages {
    fn name(&self) -> &'static str {
        "masked-images"
    }

    fn about(&self) -> &'static str {
        "the masked patches of an image or a volume"
    }

    fn keys(&self) -> &'static [Keys] {
        &[data_plan::UNPAIRED_KEYS, model::KEYS, augment::UNPAIRED_KEYS]
    }

    fn trains_encoders(&self) -> bool {
        true
    }

    fn defaults(&self) -> &'static [TaskDefault] {
        // He et al. 2022, arXiv:2111.06377, table 8, but for the learning rate.
        const OPTIMIZER: &str = r#"{ kind = "adamw", weight_decay = 0.05, betas = [0.9, 0.95] }"#;
        &[("train.learning_rate", "0.001"), ("train.optimizer", OPTIMIZER)]
    }

    fn trial(&self) -> &'static str {
        "task = \"masked-images\"\nname = \"verify\"\n\
         data = { patch = [16, 16], patches = 8, sides = [32, 32], train_fields = 3, test_fields = 1 }\n\
         model = { patch = [4, 4], embedding = 8, layers = 2, heads = 2, decoder = { kind = \"self-attention\", embedding = 8, layers = 1, heads = 2 } }\n\
         train = { epochs = 2, batch = 4, ema_decay = 0.9 }\n"
    }

    fn plan(
        &self,
        settings: &Settings,
        train: &TrainPlan,
    ) -> Result<Box<dyn TaskPlan>, ConfigError> {
        let data = DataPlan::read_unpaired(settings, train)?;
        let model = ModelPlan::read(settings, &data)?;
        let augment = AugmentPlan::read(settings, &data)?;
        Ok(Box::new(MaskedPlan { data, model, augment }))
    }
}

/// The task's part of a plan.
#[derive(Debug, Clone)]
struct MaskedPlan {
    data: DataPlan,
    model: ModelPlan,
    augment: AugmentPlan,
}

impl TaskPlan for MaskedPlan {
    fn metrics(&self) -> Vec<MetricSpec> {
        metric_specs(&Reconstruct::new(&self.model, 1))
    }

    fn find_data(&self, dir: Option<&Path>) -> Result<(), RunError> {
        data::find(&self.data, dir)
    }

    fn data_files(&self, dir: Option<&Path>) -> Result<Vec<PathBuf>, RunError> {
        data::files(&self.data, dir)
    }

    fn open(&self, plan: &Plan, opening: Opening<'_>) -> Result<Box<dyn AnyWorkload>, RunError> {
        let data = ImagePairs::open(&self.data, &OBJECTIVE, plan.seed, opening)?;
        let task = Reconstruct::new(&self.model, data.shape.inputs);
        Ok(Box::new(Reconstruction { own: self.clone(), data, task }))
    }

    fn on_examples(&self, signature: &Value) -> Option<Box<dyn AnyModel + '_>> {
        let channels = Shape::of_signature(signature).inputs;
        let config = self.model.network(channels);
        let init = move |device: &Device| config.init(device);
        Some(Box::new(OnExamples { task: Reconstruct::new(&self.model, channels), init }))
    }

    fn predictor(&self) -> Result<&dyn Predictor, &'static str> {
        Ok(self)
    }

    fn quantizer(&self) -> Result<&dyn Quantizer, &'static str> {
        Err("a masked autoencoder reads some patches of each image only; quantize a network that \
             `model.encoder` began from it")
    }
}

impl Predictor for MaskedPlan {
    fn load(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let channels = Shape::of_run(folder)?.inputs;
        let network = load(self.model.network(channels).init(device), plan, folder)?;
        Ok(Box::new(Reconstructor {
            network,
            policy: plan.precision,
            own: self.clone(),
            channels,
            seed: plan.seed,
            model: folder.served_checkpoint(plan)?.display().to_string(),
            device: device.clone(),
        }))
    }

    fn check_samples(&self) -> Result<(), RunError> {
        let reason = "the prediction is an image: name the file to write with --out FILE";
        Err(RunError::Unusable { reason: reason.to_owned() })
    }

    fn predicts_classes(&self) -> bool {
        false
    }

    fn check_file(&self, request: &FilePrediction) -> Result<(), RunError> {
        prediction_files::check(request)?;
        if request.keeps_channels {
            return Err(prediction_files::refuse_kept_channels());
        }
        if request.components.is_some() {
            let reason = "components are of masks, and the prediction has values: leave out \
                          --components";
            return Err(RunError::Unusable { reason: reason.to_owned() });
        }
        refuse_other_window(request, &self.data.patch)?;
        request.sliding(&self.data.patch, 1).map(drop)
    }
}
