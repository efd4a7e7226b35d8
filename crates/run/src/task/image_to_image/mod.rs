//! Image to image: masks, other images or the image itself, in 2D and 3D.

mod convert;
mod image_network;
mod limits;
mod model;
mod network;
mod pictures;
mod predict;
mod quantizable;
mod score;
mod target;
mod workload;

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde_json::Value;
use updraft_quant::Graph;
use updraft_trainer::{MetricSpec, metric_specs};

use self::convert::Convert;
use self::model::ModelPlan;
use self::predict::ImageConverter;
use super::ability::Ability;
use super::image_pairs::augment::{self, AugmentPlan};
use super::image_pairs::channel_losses::{self, ChannelLosses};
use super::image_pairs::data::{self, ImagePairs, Shape};
use super::image_pairs::data_plan::{self, DataPlan};
use super::image_pairs::objective::{self, Objective};
use super::image_pairs::prediction_files;
use super::kind::{Opening, Predictor, Quantizer, TaskKind, TaskPlan};
use super::loaded_model::{FilePrediction, LoadedModel};
use super::pretrained::refuse_other_window;
use super::quantizable::NO_OUTLIERS;
use crate::config::{ConfigError, Keys, Plan, Settings, TaskDefault, TrainPlan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::{Int8Network, Int8Shapes};
use crate::operation::{AnyModel, AnyWorkload};

/// The task.
#[derive(Debug)]
pub(super) struct ImageToImage;

impl TaskKind for ImageToImage {
    fn name(&self) -> &'static str {
        "image-to-image"
    }

    fn about(&self) -> &'static str {
        "a mask or another image from an image or a volume"
    }

    fn keys(&self) -> &'static [Keys] {
        &[data_plan::KEYS, model::KEYS, augment::KEYS, objective::KEYS, channel_losses::KEYS]
    }

    fn defaults(&self) -> &'static [TaskDefault] {
        &[("train.batch", "4"), ("train.learning_rate", "0.001")]
    }

    fn limited_to(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::Quantize | Ability::Int8 => {
                Some("2D U-Nets with batch norm, 2D autoencoders and vision transformers")
            }
            Ability::Segments => Some("all networks but autoencoders"),
            Ability::BatchNorms => Some("networks with batch norm"),
            _ => None,
        }
    }

    fn trial(&self) -> &'static str {
        "task = \"image-to-image\"\nname = \"verify\"\n\
         data = { patch = [16, 16], patches = 8, sides = [32, 32], train_fields = 3, test_fields = 1 }\n\
         model = { filters = [2, 4], normalization = \"batch\" }\n\
         train = { epochs = 2, batch = 4, ema_decay = 0.9 }\n"
    }

    fn plan(
        &self,
        settings: &Settings,
        train: &TrainPlan,
    ) -> Result<Box<dyn TaskPlan>, ConfigError> {
        let data = DataPlan::read(settings, train)?;
        let channel_losses = ChannelLosses::read(settings, &data)?;
        let objective = Objective::read(settings, &data, channel_losses.is_some())?;
        let model = ModelPlan::read(settings, &data)?;
        let augment = AugmentPlan::read(settings, &data)?;
        Ok(Box::new(ImagePlan { data, objective, channel_losses, model, augment }))
    }
}

/// The task's part of a plan.
#[derive(Debug, Clone)]
struct ImagePlan {
    data: DataPlan,
    objective: Objective,
    channel_losses: Option<ChannelLosses>,
    model: ModelPlan,
    augment: AugmentPlan,
}

impl ImagePlan {
    fn convert(&self, shape: &Shape) -> Convert {
        Convert {
            objective: self.objective,
            channel_losses: self.channel_losses.clone(),
            labels: self.data.labels,
            shape: shape.clone(),
            patch: self.data.patch.clone(),
            sigma: self.data.noise,
            is_deep: self.model.is_deep(),
            penalty: self.model.penalty(),
        }
    }
}

impl TaskPlan for ImagePlan {
    fn metrics(&self) -> Vec<MetricSpec> {
        let shape = Shape::of_channels(1, self.objective.outputs(1));
        metric_specs::<updraft_models::UNet2d, _>(&self.convert(&shape).of_rank::<4>())
    }

    fn find_data(&self, dir: Option<&Path>) -> Result<(), RunError> {
        data::find(&self.data, dir)
    }

    fn data_files(&self, dir: Option<&Path>) -> Result<Vec<PathBuf>, RunError> {
        data::files(&self.data, dir)
    }

    fn find_runs(&self) -> Result<(), RunError> {
        self.model.encoder(None).map_or(Ok(()), |encoder| encoder.checkpoint().map(drop))
    }

    fn open(&self, plan: &Plan, opening: Opening<'_>) -> Result<Box<dyn AnyWorkload>, RunError> {
        let pairs = ImagePairs::open(&self.data, &self.objective, plan.seed, opening)?;
        self.model.check(&pairs.shape)?;
        if let Some(losses) = &self.channel_losses {
            losses.check(pairs.shape.outputs)?;
        }
        let network = self.model.network(&pairs.shape, self.data.patch.len());
        Ok(network.with_data(self.clone(), pairs))
    }

    fn on_examples(&self, signature: &Value) -> Option<Box<dyn AnyModel + '_>> {
        let shape = Shape::of_signature(signature);
        let network = self.model.network(&shape, self.data.patch.len());
        Some(network.on_examples(self, &shape))
    }

    fn resident(&self) -> Result<(), &'static str> {
        Err("its patches are drawn on the host in every epoch")
    }

    fn predictor(&self) -> Result<&dyn Predictor, &'static str> {
        Ok(self)
    }

    fn quantizer(&self) -> Result<&dyn Quantizer, &'static str> {
        self.model.without_int8(self.data.patch.len()).map_or(Ok(self as _), Err)
    }

    fn decides(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::BatchNorms => self.model.norms_key(),
            Ability::Segments => self.model.segments_key(),
            _ => None,
        }
    }
}

impl Quantizer for ImagePlan {
    fn check_outliers(&self) -> Result<(), RunError> {
        Err(RunError::model(NO_OUTLIERS))
    }

    fn graph(&self) -> Result<Graph, RunError> {
        let sides = &self.data.patch;
        let network = self.model.network(&Shape::of_signature(&Value::Null), sides.len());
        network.graph(&[&[1], &sides[..]].concat())
    }

    fn int8_shapes(&self, folder: &RunFolder) -> Result<Int8Shapes, RunError> {
        let Shape { inputs, outputs, .. } = Shape::of_run(folder)?;
        let of = |channels| [&[channels], &self.data.patch[..]].concat();
        Ok(Int8Shapes { input: of(inputs), outputs: vec![of(outputs)] })
    }

    fn load_int8(
        &self,
        _: &Plan,
        folder: &RunFolder,
        network: Int8Network,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        Ok(Box::new(ImageConverter {
            own: self.clone(),
            shape: Shape::of_run(folder)?,
            model: format!("int8 {}", network.fingerprint()),
            network,
            device: device.clone(),
        }))
    }

    fn check_file_int8(&self, request: &FilePrediction) -> Result<(), RunError> {
        match &request.window {
            Some(window) if *window != self.data.patch => {
                let reason = format!(
                    "the window is {window:?}; the int8 network takes windows of {:?}: leave out \
                     --window",
                    self.data.patch
                );
                Err(RunError::Unusable { reason })
            }
            _ => Ok(()),
        }
    }
}

impl Predictor for ImagePlan {
    fn load(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let shape = Shape::of_run(folder)?;
        let network = self.model.network(&shape, self.data.patch.len());
        network.serve(self, &shape, plan, folder, device)
    }

    fn check_samples(&self) -> Result<(), RunError> {
        let reason = "the prediction is an image: name the file to write with --out FILE";
        Err(RunError::Unusable { reason: reason.to_owned() })
    }

    fn check_file(&self, request: &FilePrediction) -> Result<(), RunError> {
        prediction_files::check(request)?;
        if self.model.has_fixed_window() {
            refuse_other_window(request, &self.data.patch)?;
        }
        request.sliding(&self.data.patch, self.model.stride())?;
        let is_mask = matches!(self.objective, Objective::Masks { .. });
        if request.keeps_channels && !is_mask {
            return Err(prediction_files::refuse_kept_channels());
        }
        if request.components.is_some() && (!is_mask || request.keeps_channels) {
            let reason = "components are of masks, and the prediction has values: leave out \
                          --components";
            return Err(RunError::Unusable { reason: reason.to_owned() });
        }
        if request.truth.is_some() && is_mask && request.keeps_channels {
            let reason = "a true mask is compared with classes, and the prediction has values: \
                          leave out --truth or --keep-channels";
            return Err(RunError::Unusable { reason: reason.to_owned() });
        }
        Ok(())
    }
}
