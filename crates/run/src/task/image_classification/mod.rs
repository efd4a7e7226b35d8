//! Image classification: the class of an image.

mod augment;
mod cache;
mod cache_plan;
mod classifier;
mod classify;
mod data;
mod data_plan;
mod distill;
mod loss;
mod mobile_model;
mod model;
mod model_error;
mod network;
mod other_run;
mod pathways;
mod pictures;
mod predict;
mod prune;
mod quantizable;
mod resize_plan;
mod sources;
mod workload;

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde_json::Value;
use updraft_models::WeightBits;
use updraft_quant::Graph;
use updraft_trainer::{MetricSpec, metric_specs};

use self::augment::AugmentPlan;
use self::classify::Classify;
use self::data::ImageData;
use self::data_plan::{DataPlan, DataSource};
use self::distill::{Distillation, Logits};
use self::loss::ClassLoss;
use self::model::ModelPlan;
use self::predict::ImageClassifier;
use self::prune::Pruning;
use self::sources::{find_sources, source_files};
use super::ability::Ability;
use super::kind::{NeedsSingleRank, Opening, Predictor, Quantizer, TaskKind, TaskPlan};
use super::loaded_model::LoadedModel;
use crate::config::{ConfigError, Edit, Key, Keys, Plan, Settings, TaskDefault, TrainPlan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::{Int8Network, Int8Shapes};
use crate::operation::{AnyModel, AnyWorkload};

const LOSS: Key<ClassLoss> = Key::new(
    "train.loss",
    "or `focal` with `gamma`, `binary-cross-entropy`, `asymmetric` with `positive_focus`, `negative_focus` and `margin`, `mean-squared-error`",
)
.default(r#"{ kind = "cross-entropy" }"#).edit(Edit::Reported);
const LABEL_SMOOTHING: Key<f32> =
    Key::new("train.label_smoothing", "label smoothing; cross-entropy only")
        .default("0.0")
        .edit(Edit::Reported)
        .check("at least 0 and below 1", |share| (0.0..1.0).contains(share));

const QUANTIZATION: Key<WeightBits> = Key::new(
    "train.quantization",
    "quantization-aware training: `int8`, or `int4` with weights of four bits in all layers but the first and the last; activations have eight. `separable`, `mobile-net` and `efficient-net` only; `quantize` takes the steps that were learnt",
);

/// The task.
#[derive(Debug)]
pub(super) struct ImageClassification;

impl TaskKind for ImageClassification {
    fn name(&self) -> &'static str {
        "image-classification"
    }

    fn about(&self) -> &'static str {
        "the class of an image"
    }

    fn keys(&self) -> &'static [Keys] {
        const LOSSES: Keys = &[&LOSS, &LABEL_SMOOTHING, &QUANTIZATION];
        &[data_plan::KEYS, model::KEYS, prune::KEYS, augment::KEYS, LOSSES, distill::KEYS]
    }

    fn defaults(&self) -> &'static [TaskDefault] {
        &[("train.criterion", r#""test-accuracy""#)]
    }

    fn limited_to(&self, ability: Ability) -> Option<&'static str> {
        let is_int8 = matches!(ability, Ability::Quantize | Ability::Int8);
        is_int8.then_some("convolutional networks")
    }

    fn least_batch(&self) -> (usize, &'static str) {
        (2, ": batch norms need a variance")
    }

    fn quickstart(&self) -> &'static str {
        // The same text as `configs/quickstart.toml`, which is not part of this package.
        include_str!("quickstart.toml")
    }

    fn trial(&self) -> &'static str {
        "name = \"verify\"\n\
         data = { height = 16, width = 16, train_images = 96, test_images = 20 }\n\
         model = { channels = 4, dropout = 0.2 }\n\
         augment = { flip = true }\n\
         train = { epochs = 2, batch = 24, ema_decay = 0.9, learning_rate = 0.01 }\n"
    }

    fn without_dropout(&self) -> &'static [&'static str] {
        &["model.dropout=0.0"]
    }

    fn with_dropout(&self) -> &'static [&'static str] {
        &["model={ kind = \"efficient-net\", width_factor = 0.1, depth_factor = 0.3, hidden = 16, \
             dropout = 0.4, drop_path = 0.1 }"]
    }

    fn without_cache(&self) -> &'static [&'static str] {
        &["data.cache={ kind = \"none\" }"]
    }

    fn resident_data(&self) -> &'static [&'static str] {
        &["augment.flip=false"]
    }

    fn plan(
        &self,
        settings: &Settings,
        train: &TrainPlan,
    ) -> Result<Box<dyn TaskPlan>, ConfigError> {
        let data = DataPlan::read(settings)?;
        if let DataSource::Generated { train_images, .. } = data.source {
            train.check_samples(settings, train_images, "which is `data.train_images`")?;
        }
        let model = ModelPlan::read(settings, &data, settings.option(&QUANTIZATION)?)?;
        let is_prunable = model.is_prunable();
        let plan = ImagePlan {
            model,
            pruning: if is_prunable { Pruning::read(settings)? } else { None },
            augment: AugmentPlan::read(settings, data.size())?,
            loss: settings.value(&LOSS)?,
            label_smoothing: settings.value(&LABEL_SMOOTHING)?,
            distillation: Distillation::read(settings)?,
            data,
        };
        let refuse = |error| settings.refuse_training(&error);
        plan.loss.validate(plan.label_smoothing).map_err(refuse)?;
        if plan.augment.mix_up.is_some() {
            plan.loss.check_shares().map_err(refuse)?;
        }
        if let (Some(_), Some(key)) = (train.resident, plan.augment.first_key()) {
            let expected = format!("left out with `{key}`, which is computed on the host");
            return Err(settings.refuse_given("train.resident", &expected));
        }
        Ok(Box::new(plan))
    }
}

/// The task's part of a plan.
#[derive(Debug, Clone)]
struct ImagePlan {
    data: DataPlan,
    model: ModelPlan,
    augment: AugmentPlan,
    loss: ClassLoss,
    label_smoothing: f32,
    distillation: Option<Distillation>,
    pruning: Option<Pruning>,
}

impl ImagePlan {
    fn classify(&self) -> Classify {
        Classify {
            loss: self.loss,
            label_smoothing: self.label_smoothing,
            distillation: self.distillation.clone(),
            penalty: self.model.penalty(),
            size: self.data.size(),
            views: None,
        }
    }
}

impl TaskPlan for ImagePlan {
    fn metrics(&self) -> Vec<MetricSpec> {
        metric_specs::<updraft_models::SeparableNet, _>(&self.classify())
    }

    fn needs_single_rank(&self) -> Option<NeedsSingleRank> {
        // The first batch sets the ranges of codes, and each rank would see a part of it.
        let advice = "train on one rank, or quantize the trained network";
        let key = "train.quantization";
        self.model.quantization().map(|_| NeedsSingleRank { key, advice })
    }

    fn find_data(&self, dir: Option<&Path>) -> Result<(), RunError> {
        find_sources(&self.data, dir).map(drop)
    }

    fn data_files(&self, dir: Option<&Path>) -> Result<Vec<PathBuf>, RunError> {
        source_files(&self.data, dir)
    }

    fn find_runs(&self) -> Result<(), RunError> {
        self.distillation.as_ref().map_or(Ok(()), |taught| taught.find(&self.data))?;
        self.pruning.as_ref().map_or(Ok(()), |pruning| pruning.find(&self.data))?;
        self.model.encoder().map_or(Ok(()), |encoder| encoder.checkpoint().map(drop))
    }

    fn open(&self, plan: &Plan, opening: Opening<'_>) -> Result<Box<dyn AnyWorkload>, RunError> {
        let run = opening.run;
        let data = ImageData::open(&self.data, plan.seed, opening)?;
        // A run that is not new needs its teacher only if it is trained further.
        if let Some(distillation) = &self.distillation {
            match run {
                Some(run) => distillation.continues(run),
                None => distillation.check(&self.data, data.classes())?,
            }
        }
        // Only a new run begins with the channels of another.
        if let (Some(pruning), None) = (&self.pruning, run) {
            pruning.check(plan, &self.data, data.classes())?;
        }
        let classes = data.classes().len();
        Ok(self.model.network(classes).with_data(self.clone(), data))
    }

    fn on_examples(&self, signature: &Value) -> Option<Box<dyn AnyModel + '_>> {
        let classes = signature.as_array().map_or(0, Vec::len).max(2);
        Some(self.model.network(classes).on_examples(self))
    }

    fn teacher(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Logits, RunError> {
        let classes = data::classes_of(folder)?.len();
        self.model.network(classes).logits(plan, folder, device)
    }

    fn writes_caches(&self) -> bool {
        self.data.writes_caches()
    }

    fn resident(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn predictor(&self) -> Result<&dyn Predictor, &'static str> {
        Ok(self)
    }

    fn quantizer(&self) -> Result<&dyn Quantizer, &'static str> {
        Ok(self)
    }

    fn decides(&self, ability: Ability) -> Option<&'static str> {
        let is_without = ability == Ability::BatchNorms && !self.model.has_batch_norms();
        is_without.then_some("model.kind")
    }
}

impl Predictor for ImagePlan {
    fn load(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let classes = data::classes_of(folder)?;
        self.model.network(classes.len()).serve(self, plan, folder, device, classes)
    }
}

impl Quantizer for ImagePlan {
    fn check_outliers(&self) -> Result<(), RunError> {
        self.model.check_outliers()
    }

    fn graph(&self) -> Result<Graph, RunError> {
        let (height, width) = self.data.size();
        self.model.network(2).graph([3, height, width])
    }

    fn int8_shapes(&self, folder: &RunFolder) -> Result<Int8Shapes, RunError> {
        let (height, width) = self.data.size();
        let classes = data::classes_of(folder)?.len();
        Ok(Int8Shapes { input: vec![3, height, width], outputs: vec![vec![classes]] })
    }

    fn load_int8(
        &self,
        _: &Plan,
        folder: &RunFolder,
        network: Int8Network,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let classes = data::classes_of(folder)?;
        Ok(Box::new(ImageClassifier::new(network, &self.data, classes, device.clone())))
    }
}
