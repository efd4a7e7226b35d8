//! The workload of a network and its rows.

use burn::tensor::Device;
use serde_json::{Value, json};
use updraft_data::{Collate, TensorBatch};

use super::TablePlan;
use super::data::{ENCODER, TableData, scale};
use super::model::Regressor;
use super::pictures::pictures;
use super::regress::Regress;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::{About, Picture, StreamUse, Streams, Workload};

/// A network with its rows.
pub(super) struct Regression<N> {
    pub(super) plan: TablePlan,
    pub(super) data: TableData,
    pub(super) task: Regress,
    /// Draws fresh parameters.
    pub(super) init: Box<dyn Fn(&Device) -> N>,
}

impl<N: Regressor> Workload for Regression<N> {
    type Model = N;
    type Task = Regress;

    fn task(&self) -> &Regress {
        &self.task
    }

    fn init(&self, device: &Device) -> N {
        (self.init)(device)
    }

    fn streams(&self, plan: &Plan, _: StreamUse) -> Result<Streams<TensorBatch>, RunError> {
        let [train, test] = self.data.loaders(&plan.train, plan.seed)?;
        Ok(Streams { train: Box::new(train), test: Box::new(test) })
    }

    fn about(&self) -> About {
        let (train, test) = (self.data.train.len(), self.data.test.len());
        let widths = self.plan.model.widths(self.task.inputs);
        let widths: Vec<String> = widths.iter().map(usize::to_string).collect();
        let (inputs, target) = (self.task.inputs, &self.data.target);
        About {
            data: format!("{train} training and {test} test rows, {inputs} inputs to `{target}`"),
            model: format!("{} {}", N::KIND, widths.join("-")),
            samples: "rows",
            short: "rows",
            notes: self.data.notes.clone(),
            train_samples: train,
            test_samples: test,
        }
    }

    fn signature(&self) -> Value {
        json!(self.task.inputs)
    }

    fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        folder.write_json(ENCODER, &self.data.encoder)
    }

    fn check(&self, folder: &RunFolder) -> Result<(), RunError> {
        self.data.check(folder)
    }

    fn multiply_adds(&self, _: &N) -> Result<u64, &'static str> {
        let widths = self.plan.model.widths(self.task.inputs);
        let of_layer = |pair: &[usize]| N::multiply_adds(pair[0], pair[1], &self.plan.model);
        Ok(widths.windows(2).map(of_layer).sum())
    }

    fn pictures(&self, plan: &Plan, model: &N, device: &Device) -> Result<Vec<Picture>, RunError> {
        let [_, test] = self.data.loaders(&plan.train, plan.seed)?;
        let of_target = (self.data.target.as_str(), scale(&self.data.encoder, &self.data.target));
        pictures(model, plan.precision, &test, of_target, device)
    }
}
