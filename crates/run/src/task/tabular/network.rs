//! A network of any kind, before its parameters are initialized.

use burn::tensor::Device;
use updraft_data::TableEncoder;

use super::TablePlan;
use super::data::{TableData, scale};
use super::model::Regressor;
use super::predict::RowPredictor;
use super::workload::Regression;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::{AnyModel, AnyWorkload, OnExamples, load};
use crate::task::Serving;

/// Operations on a network; implemented for every function that initializes a [`Regressor`].
pub(super) trait Network {
    /// Combines the network with its rows.
    fn with_data(self: Box<Self>, plan: TablePlan, data: TableData) -> Box<dyn AnyWorkload>;

    /// Combines the network with its task of `inputs` numbers, without data.
    fn on_examples(self: Box<Self>, own: &TablePlan, inputs: usize) -> Box<dyn AnyModel>;

    /// Loads the parameters of a run and returns the model for prediction.
    fn serve(
        &self,
        own: &TablePlan,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
        encoder: &TableEncoder,
    ) -> Result<Box<dyn Serving>, RunError>;
}

impl<N: Regressor, F: Fn(&Device) -> N + 'static> Network for F {
    fn with_data(self: Box<Self>, plan: TablePlan, data: TableData) -> Box<dyn AnyWorkload> {
        let (_, std) = scale(&data.encoder, &data.target);
        let task = plan.regress(std, data.train.sample_shape()[0]);
        Box::new(Regression { plan, data, task, init: self })
    }

    fn on_examples(self: Box<Self>, own: &TablePlan, inputs: usize) -> Box<dyn AnyModel> {
        Box::new(OnExamples { task: own.regress(1.0, inputs), init: *self })
    }

    fn serve(
        &self,
        own: &TablePlan,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
        encoder: &TableEncoder,
    ) -> Result<Box<dyn Serving>, RunError> {
        let network = load(self(device), plan, folder)?;
        Ok(Box::new(RowPredictor::new(network, own, encoder, plan.precision, device.clone())))
    }
}
