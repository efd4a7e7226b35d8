//! The workload of a network and its rows.

use burn::tensor::Device;
use serde_json::{Value, json};
use updraft_data::{Collate, Part};
use updraft_precision::Policy;
use updraft_trainer::{Control, Converted, evaluate};

use super::data::{ENCODER, TARGETS, TableData, codes};
use super::dependence::{TOP, dependence};
use super::importance::{importance, importance_pictures, places, ranked, sample};
use super::learn::Learn;
use super::model::{RowModel, RowNetwork};
use super::network::Sizes;
use super::pictures::pictures;
use super::placed_rows::{PlacedRows, TableBatch};
use super::quantizable::QuantizableRows;
use super::schema_file::SCHEMA_FILE;
use super::score::TargetScore;
use super::target_plan::metric_name;
use super::targets::TargetCode;
use super::{TablesPlan, signature};
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::load_stored;
use crate::task::resident::BatchFrom;
use crate::task::{
    About, Int8Forward, Picture, Quantizable, StreamUse, Streams, Workload, resident,
};

/// Initializes a model on a device.
type DrawModel<N> = Box<dyn Fn(&Device) -> RowModel<N>>;

/// A network with its rows.
pub(super) struct Rows<N> {
    pub(super) own: TablesPlan,
    pub(super) data: TableData,
    pub(super) learn: Learn,
    /// The network's kind and shape.
    pub(super) about: String,
    pub(super) sizes: Sizes,
    pub(super) init: DrawModel<N>,
}

impl<N: RowNetwork> Rows<N> {
    /// Pictures of the importance of features, and of the effect of the most important ones.
    fn effects(
        &self,
        policy: Policy,
        model: &RowModel<N>,
        device: &Device,
    ) -> Result<Vec<Picture>, RunError> {
        let (learn, data) = (&self.learn, &self.data);
        let batch = sample(&data.test, self.own.data.importance_rows)?;
        let places = places(&data.encoder);
        let rises = importance(learn, (model, policy), (&batch, &places), device);
        let mut all = importance_pictures(learn, &places, &rises, batch.indices.len());
        let of = (learn, data.codes.as_slice(), &data.encoder);
        for at in 0..learn.targets.len() {
            for feature in ranked(&rises, at).into_iter().take(TOP) {
                let rows = (&batch, &places[feature]);
                all.extend(dependence(of, (model, policy), rows, at, device));
            }
        }
        Ok(all)
    }
}

impl<N: RowNetwork> Workload for Rows<N> {
    type Model = RowModel<N>;
    type Task = Learn;

    fn task(&self) -> &Learn {
        &self.learn
    }

    fn init(&self, device: &Device) -> RowModel<N> {
        (self.init)(device)
    }

    fn streams(
        &self,
        plan: &Plan,
        used_for: StreamUse<'_>,
    ) -> Result<Streams<TableBatch>, RunError> {
        let loaders = self.data.loaders(&plan.train, plan.seed, used_for.part())?;
        resident::streams(loaders, &plan.train, used_for, PlacedRows::new)
    }

    fn about(&self) -> About {
        let (train, test) = (self.data.train.len(), self.data.test.len());
        let targets: Vec<&str> =
            self.learn.targets.iter().map(|target| target.column.as_str()).collect();
        let validation = self.data.validation.as_ref();
        let validation =
            validation.map_or_else(String::new, |rows| format!(", {} validation", rows.len()));
        let (categories, numbers) = (self.learn.categories, self.learn.numbers);
        About {
            data: format!(
                "{train} training{validation} and {test} test rows, {categories} categories and \
                 {numbers} numbers to `{}`",
                targets.join("`, `")
            ),
            model: self.about.clone(),
            samples: "rows",
            short: "rows",
            notes: self.data.notes.clone(),
            train_samples: train,
            test_samples: test,
        }
    }

    fn signature(&self) -> Value {
        signature(&self.data.features(), &self.learn)
    }

    fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        folder.write_bound_json(ENCODER, &self.data.encoder)?;
        let schema = self.data.schema.to_toml(&self.own.data.unwritten());
        folder.write(SCHEMA_FILE, schema.as_bytes())?;
        folder.write_bound_json(TARGETS, &self.data.codes)
    }

    /// Finds the threshold of each label with the highest F1 on the validation rows. Without them,
    /// or if no validation row has the label, it is 0.5.
    fn decide(
        &self,
        plan: &Plan,
        model: &RowModel<N>,
        device: &Device,
        folder: &RunFolder,
    ) -> Result<Option<Learn>, RunError> {
        // The codes of the data have thresholds of 0.5: a resumed run may have stored others.
        let mut codes = self.data.codes.clone();
        let Some(validation) = self.data.validation_loader(&plan.train)? else {
            folder.write_bound_json(TARGETS, &codes)?;
            return Ok(None);
        };
        let validation = Converted::new(validation, BatchFrom::Loader);
        let goes_on = &mut |_| Control::Continue;
        let scored = evaluate(&self.learn, model, &validation, device, plan.precision, goes_on)?;
        let Some(scored) = scored else { return Ok(None) };
        for (code, score) in codes.iter_mut().zip(&scored.score.targets) {
            if let (TargetCode::Labels { thresholds, .. }, TargetScore::Labels(score)) =
                (code, score)
            {
                for (threshold, best) in thresholds.iter_mut().zip(score.best_thresholds()) {
                    *threshold = best.unwrap_or(*threshold);
                }
            }
        }
        folder.write_bound_json(TARGETS, &codes)?;
        Ok(Some(self.learn.clone().with_codes(&codes)))
    }

    fn decided(&self, folder: &RunFolder) -> Result<Option<Learn>, RunError> {
        let codes = codes(folder, &self.own.targets)?;
        Ok(Some(self.learn.clone().with_codes(&codes)))
    }

    fn check(&self, folder: &RunFolder) -> Result<(), RunError> {
        self.data.check(folder, &self.own.targets)
    }

    fn multiply_adds(&self, _: &RowModel<N>) -> Result<u64, &'static str> {
        Ok(self.sizes.multiply_adds)
    }

    fn into_quantizable(
        self,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn Quantizable>, RunError> {
        let model = load_stored((self.init)(device), plan, folder)?;
        // The thresholds of labels are those of the run.
        let learn = self.learn.with_codes(&codes(folder, &self.own.targets)?);
        Ok(Box::new(QuantizableRows {
            data: self.data,
            learn,
            train: plan.train.clone(),
            seed: plan.seed,
            model,
            inputs: self.sizes.inputs,
            device: device.clone(),
        }))
    }

    fn int8_forward(&self) -> Result<Int8Forward<Self>, &'static str> {
        Ok(Int8Forward::<Self>::Behind(|model, network, (classes, numbers)| {
            let outputs = network.forward_all(model.embed(classes, numbers));
            (outputs, (model.log_variances(), model.balance()), None)
        }))
    }

    fn epoch_fields(&self, model: &RowModel<N>) -> Vec<(&'static str, Value)> {
        let Some(weights) = model.loss_weights() else { return Vec::new() };
        let names = self.learn.targets.iter().map(|target| metric_name(&target.column));
        let weights = names.zip(weights).map(|(name, weight)| (name, json!(weight)));
        vec![("target_weights", Value::Object(weights.collect()))]
    }

    fn curves(&self, model: &RowModel<N>) -> Vec<(String, Vec<(String, String)>)> {
        if model.loss_weights().is_none() {
            return Vec::new();
        }
        let curve = |name: String| (name.clone(), format!("/target_weights/{name}"));
        let names = self.learn.targets.iter().map(|target| metric_name(&target.column));
        vec![("Factors of the losses".to_owned(), names.map(curve).collect())]
    }

    fn pictures(
        &self,
        plan: &Plan,
        model: &RowModel<N>,
        device: &Device,
    ) -> Result<Vec<Picture>, RunError> {
        let [_, test] = self.data.loaders(&plan.train, plan.seed, Part::WHOLE)?;
        let mut all =
            pictures((&self.learn, &self.data.codes), model, plan.precision, &test, device)?;
        if self.own.data.importance_rows > 0 {
            all.extend(self.effects(plan.precision, model, device)?);
        }
        Ok(all)
    }
}
