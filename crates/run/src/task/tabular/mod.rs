//! Tabular regression: a number from the other columns of a row.

mod data;
mod data_plan;
mod loss;
mod model;
mod network;
mod pictures;
mod predict;
mod regress;
mod workload;

use std::path::Path;

use burn::tensor::Device;
use serde_json::Value;
use updraft_data::TableEncoder;
use updraft_trainer::{MetricSpec, metric_specs};

use self::data::{ENCODER, TableData};
use self::data_plan::DataPlan;
use self::loss::ValueLoss;
use self::model::ModelPlan;
use self::regress::Regress;
use super::kind::{Opening, Predictor, Quantizer, TaskKind, TaskPlan};
use super::serving::Serving;
use crate::config::{ConfigError, Edit, Key, Keys, Plan, Settings, TaskDefault, TrainPlan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::{AnyModel, AnyWorkload};

const LOSS: Key<ValueLoss> = Key::new(
    "train.loss",
    "or `mean-absolute-error`, `huber` with `delta`, of the standardized target",
)
.default(r#"{ kind = "mean-squared-error" }"#)
.edit(Edit::Reported)
.check("of a `delta` that is finite and above 0", ValueLoss::is_valid);

/// The task.
#[derive(Debug)]
pub(super) struct TabularRegression;

impl TaskKind for TabularRegression {
    fn name(&self) -> &'static str {
        "tabular-regression"
    }

    fn about(&self) -> &'static str {
        "a number from the other columns of a row"
    }

    fn keys(&self) -> &'static [Keys] {
        const LOSSES: Keys = &[&LOSS];
        &[data_plan::KEYS, model::KEYS, LOSSES]
    }

    fn defaults(&self) -> &'static [TaskDefault] {
        &[
            ("train.epochs", "60"),
            ("train.learning_rate", "0.01"),
            ("train.optimizer", r#"{ kind = "adamw", weight_decay = 0.0 }"#),
            ("train.schedule", r#"{ kind = "warmup-cosine", warmup = 0.05, floor = 0.0 }"#),
            // Rows are in memory: passing them between threads costs more than it saves.
            ("train.workers", "0"),
        ]
    }

    fn trial(&self) -> &'static str {
        "task = \"tabular-regression\"\nname = \"verify\"\n\
         data = { train_rows = 96, test_rows = 20 }\n\
         train = { epochs = 2, batch = 24, ema_decay = 0.9 }\n"
    }

    fn plan(&self, settings: &Settings, _: &TrainPlan) -> Result<Box<dyn TaskPlan>, ConfigError> {
        let (data, model) = (DataPlan::read(settings)?, ModelPlan::read(settings)?);
        Ok(Box::new(TablePlan { data, model, loss: settings.value(&LOSS)? }))
    }
}

/// The task's part of a plan.
#[derive(Debug, Clone)]
struct TablePlan {
    data: DataPlan,
    model: ModelPlan,
    loss: ValueLoss,
}

impl TablePlan {
    fn regress(&self, std: f64, inputs: usize) -> Regress {
        let (target, penalty) = (self.data.target().to_owned(), self.model.penalty());
        Regress { target, loss: self.loss, penalty, std, inputs }
    }
}

impl TaskPlan for TablePlan {
    fn metrics(&self) -> Vec<MetricSpec> {
        metric_specs::<updraft_models::Perceptron, _>(&self.regress(1.0, 1))
    }

    fn find_data(&self, dir: Option<&Path>) -> Result<(), RunError> {
        self.data.find(dir).map(drop)
    }

    fn open(&self, plan: &Plan, opening: Opening<'_>) -> Result<Box<dyn AnyWorkload>, RunError> {
        let data = TableData::open(&self.data, plan.seed, &opening)?;
        let inputs = data.train.sample_shape()[0];
        Ok(self.model.network(inputs).with_data(self.clone(), data))
    }

    fn on_examples(&self, signature: &Value) -> Option<Box<dyn AnyModel + '_>> {
        let inputs = signature.as_u64().map_or(1, |inputs| inputs as usize);
        Some(self.model.network(inputs).on_examples(self, inputs))
    }

    fn predictor(&self) -> Result<&dyn Predictor, &'static str> {
        Ok(self)
    }

    fn quantizer(&self) -> Result<&dyn Quantizer, &'static str> {
        Err("its networks are splines, which int8 models do not have, or a few small layers")
    }
}

impl Predictor for TablePlan {
    fn load(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Serving>, RunError> {
        let encoder: TableEncoder = folder.read_json(ENCODER)?;
        let inputs = data::width(&encoder, self.data.target());
        self.model.network(inputs).serve(self, plan, folder, device, &encoder)
    }
}
