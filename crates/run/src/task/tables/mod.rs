//! Tables: any mixture of numbers, classes and labels from the other columns of a row.

mod column_error;
mod data;
mod data_plan;
mod dependence;
mod doubts;
mod files;
mod forward;
mod generated_rows;
mod importance;
mod learn;
mod loss;
mod model;
mod network;
mod outputs;
mod pictures;
mod placed_rows;
mod predict;
mod quantizable;
mod rare_words;
mod residuals;
mod row_score;
mod rows;
mod schema_file;
mod score;
mod source_plan;
mod splines;
mod split;
mod strata;
mod target_plan;
mod targets;
mod tensors;
mod typed_row;
mod unknown;
mod weighting;
mod workload;

use std::path::Path;

use burn::tensor::Device;
use serde_json::{Value, json};
use updraft_data::RowEncoder;
use updraft_models::{Head, RowFeatures};
use updraft_quant::Graph;
use updraft_trainer::{MetricSpec, metric_specs};

use self::data::{ENCODER, TableData};
use self::data_plan::DataPlan;
use self::learn::{Learn, PENALTY, Target};
use self::model::{ModelPlan, RowModel};
use self::network::Network;
use self::predict::Coding;
use self::source_plan::Source;
use self::target_plan::{TargetKind, TargetsPlan, metric_name};
use super::ability::Ability;
use super::kind::{NeedsSingleRank, Opening, Predictor, Quantizer, TaskKind, TaskPlan};
use super::loaded_model::{FilePrediction, LoadedModel};
use super::quantizable::NO_OUTLIERS;
use super::table_prediction::TablePrediction;
use crate::config::{ConfigError, Keys, Plan, Settings, TaskDefault, TrainPlan};
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::{Int8Network, Int8Shapes};
use crate::operation::{AnyModel, AnyWorkload};

/// The task.
#[derive(Debug)]
pub(super) struct Tables;

impl TaskKind for Tables {
    fn name(&self) -> &'static str {
        "tables"
    }

    fn about(&self) -> &'static str {
        "numbers, classes and labels from the other columns of a row"
    }

    fn keys(&self) -> &'static [Keys] {
        &[source_plan::KEYS, data_plan::KEYS, target_plan::KEYS, model::KEYS]
    }

    fn defaults(&self) -> &'static [TaskDefault] {
        &[
            ("train.epochs", "20"),
            ("train.batch", "256"),
            ("train.learning_rate", "0.002"),
            ("train.optimizer", r#"{ kind = "adamw", weight_decay = 0.0001 }"#),
            ("train.schedule", r#"{ kind = "warmup-cosine", warmup = 0.05, floor = 0.0 }"#),
            // Rows are in memory: passing them between threads costs more than it saves.
            ("train.workers", "0"),
        ]
    }

    fn limited_to(&self, ability: Ability) -> Option<&'static str> {
        let is_int8 = matches!(ability, Ability::Quantize | Ability::Int8);
        is_int8.then_some("all networks but KAN layers")
    }

    fn trial(&self) -> &'static str {
        "task = \"tables\"\nname = \"verify\"\n\
         data = { train_rows = 96, test_rows = 20 }\n\
         model = { hidden = 16, frequencies = 4 }\n\
         train = { epochs = 2, batch = 24, ema_decay = 0.9, target_weights = \"uncertainty\" }\n"
    }

    fn without_dropout(&self) -> &'static [&'static str] {
        &["model.dropout=0.0"]
    }

    fn plan(
        &self,
        settings: &Settings,
        train: &TrainPlan,
    ) -> Result<Box<dyn TaskPlan>, ConfigError> {
        let (data, targets) = DataPlan::read(settings)?;
        if let Source::Generated { train_rows, .. } = data.source {
            train.check_samples(settings, train_rows, "which is `data.train_rows`")?;
        }
        let model = ModelPlan::read(settings, data.encoding)?;
        targets.weighting.check_network(settings, model.has_shared_layers())?;
        let is_ambiguous = targets.targets.keys().any(|name| metric_name(name) == PENALTY);
        if model.penalty().is_some() && is_ambiguous {
            let expected = "left out beside a target of the name `penalty`: both losses would be \
                            `loss-penalty`";
            return Err(settings.refuse_given("model.penalty", expected));
        }
        Ok(Box::new(TablesPlan { data, targets, model }))
    }
}

/// The task's part of a plan.
#[derive(Debug, Clone)]
struct TablesPlan {
    data: DataPlan,
    targets: TargetsPlan,
    model: ModelPlan,
}

impl TablesPlan {
    /// The targets for example data with these heads.
    fn learn(&self, features: &RowFeatures, heads: &[Head]) -> Learn {
        let targets = self.targets.targets.iter().zip(heads);
        Learn {
            targets: targets.map(|((name, plan), head)| Target::new(name, plan, *head)).collect(),
            categories: features.class_counts.len(),
            numbers: features.numbers,
            penalty: self.model.penalty(),
            balanced_every: self.targets.weighting.every(),
        }
    }

    /// The encodings of a run, and the network for them.
    fn of_run(&self, folder: &RunFolder) -> Result<(Coding, Learn, Network), RunError> {
        let encoder: RowEncoder = folder.read_bound_json(ENCODER)?;
        let (rules, schema_file) = self.data.schema_of(folder, &self.targets, &encoder)?;
        let coding = Coding {
            schema: rules.with_rules(encoder.schema().clone()),
            schema_file,
            encoder,
            codes: data::codes(folder, &self.targets)?,
        };
        let learn = data::learn(&coding.encoder, &coding.codes, &self.targets, None);
        let heads = learn.targets.iter().map(|target| target.head).collect();
        let network = self.model.network(data::features(&coding.encoder), heads);
        Ok((coding, learn, network))
    }

    /// Heads with the smallest number of classes, if the data is unknown.
    fn least_heads(&self) -> Vec<Head> {
        let head = |kind| match kind {
            TargetKind::Number => Head::Numbers(1),
            TargetKind::Classes => Head::Classes(2),
            TargetKind::Ordered => Head::Ordered(2),
            TargetKind::Labels => Head::Labels(1),
        };
        self.targets.targets.values().map(|target| head(target.kind)).collect()
    }
}

/// The properties of the data that a network depends on: its features and the heads of its targets.
fn signature(features: &RowFeatures, learn: &Learn) -> Value {
    let heads: Vec<Head> = learn.targets.iter().map(|target| target.head).collect();
    json!({ "features": features, "heads": heads })
}

impl TaskPlan for TablesPlan {
    fn resident(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn needs_single_rank(&self) -> Option<NeedsSingleRank> {
        // Each rank would balance the gradients of its own part of a batch.
        let every = self.targets.weighting.every();
        let advice = "set it to `uncertainty`, or remove it";
        every.map(|_| NeedsSingleRank { key: weighting::NAME, advice })
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        let features = RowFeatures { class_counts: vec![], numbers: 1 };
        let learn = self.learn(&features, &self.least_heads());
        metric_specs::<RowModel<updraft_models::TableNet>, _>(&learn)
    }

    fn find_data(&self, dir: Option<&Path>) -> Result<(), RunError> {
        self.data.source.find(dir).map(drop)
    }

    fn find_runs(&self) -> Result<(), RunError> {
        self.data.with_schema(&self.targets, None).map(drop)
    }

    fn open(&self, plan: &Plan, opening: Opening<'_>) -> Result<Box<dyn AnyWorkload>, RunError> {
        let rows = self.data.with_schema(&self.targets, opening.run)?;
        let data = TableData::open(&rows, &self.targets, plan.seed, opening.dir)?;
        let learn = data.learn(&self.targets, self.model.penalty());
        let heads = learn.targets.iter().map(|target| target.head).collect();
        let network = self.model.network(data.features(), heads);
        Ok(network.with_data(self.clone(), data, learn))
    }

    fn on_examples(&self, signature: &Value) -> Option<Box<dyn AnyModel + '_>> {
        let of = |name: &str| signature.get(name).cloned().unwrap_or_default();
        let features = serde_json::from_value(of("features"))
            .unwrap_or(RowFeatures { class_counts: vec![2], numbers: 1 });
        let heads = serde_json::from_value(of("heads")).unwrap_or_else(|_| self.least_heads());
        let learn = self.learn(&features, &heads);
        Some(self.model.network(features, heads).on_examples(self, learn))
    }

    fn predictor(&self) -> Result<&dyn Predictor, &'static str> {
        Ok(self)
    }

    fn quantizer(&self) -> Result<&dyn Quantizer, &'static str> {
        self.model.without_int8().map_or(Ok(self as _), Err)
    }
}

impl Quantizer for TablesPlan {
    fn check_outliers(&self) -> Result<(), RunError> {
        Err(RunError::model(NO_OUTLIERS))
    }

    fn graph(&self) -> Result<Graph, RunError> {
        let features = RowFeatures { class_counts: vec![2], numbers: 1 };
        self.model.network(features, self.least_heads()).graph(self)
    }

    /// The first layer and the heads have the sizes of the data.
    fn knows_sizes(&self) -> bool {
        false
    }

    fn int8_shapes(&self, folder: &RunFolder) -> Result<Int8Shapes, RunError> {
        let (_, learn, network) = self.of_run(folder)?;
        let outputs = learn.targets.iter().map(|target| vec![target.head.width()]).collect();
        Ok(Int8Shapes { input: vec![network.inputs()], outputs })
    }

    fn load_int8(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        network: Int8Network,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let (coding, learn, fresh) = self.of_run(folder)?;
        fresh.serve_int8((self, learn), coding, (plan, folder), network, device)
    }
}

impl Predictor for TablesPlan {
    fn load(
        &self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let (coding, learn, network) = self.of_run(folder)?;
        network.serve((self, learn), coding, plan, folder, device)
    }

    fn check_file(&self, request: &FilePrediction) -> Result<(), RunError> {
        // The output has the name of an image, which the check of tables refuses.
        self.check_table(&TablePrediction::new(&request.input, &request.output))
    }

    fn check_table(&self, request: &TablePrediction) -> Result<(), RunError> {
        request.check()
    }

    fn predicts_classes(&self) -> bool {
        let has_classes = |kind| matches!(kind, TargetKind::Classes | TargetKind::Ordered);
        self.targets.targets.values().any(|target| has_classes(target.kind))
    }
}
