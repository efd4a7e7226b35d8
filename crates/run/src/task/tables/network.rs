//! A network of any kind, before its parameters are initialized.

use burn::tensor::Device;

use super::TablesPlan;
use super::data::TableData;
use super::learn::Learn;
use super::model::{RowModel, RowNetwork};
use super::predict::{Coding, RowPredictor};
use super::workload::Rows;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::{AnyModel, AnyWorkload, OnExamples, load};
use crate::task::LoadedModel;

/// A network of any kind, before its parameters are initialized.
pub(super) struct Network {
    about: String,
    multiply_adds: u64,
    init: Box<dyn Init>,
}

impl Network {
    pub(super) fn new<N: RowNetwork>(
        about: String,
        multiply_adds: u64,
        init: impl Fn(&Device) -> N + 'static,
    ) -> Self {
        Self { about, multiply_adds, init: Box::new(init) }
    }

    /// Combines the network with its rows.
    pub(super) fn with_data(
        self,
        own: TablesPlan,
        data: TableData,
        learn: Learn,
    ) -> Box<dyn AnyWorkload> {
        self.init.with_data(own, data, learn, (self.about, self.multiply_adds))
    }

    /// Combines the network with its task, without data.
    pub(super) fn on_examples(self, own: &TablesPlan, learn: Learn) -> Box<dyn AnyModel> {
        self.init.on_examples(own, learn)
    }

    /// Loads the parameters of a run and returns the model for prediction.
    pub(super) fn serve(
        &self,
        (own, learn): (&TablesPlan, Learn),
        coding: Coding,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        self.init.serve((own, learn), coding, plan, folder, device)
    }
}

/// Operations on a network; implemented for every function that initializes a [`RowNetwork`].
trait Init {
    fn with_data(
        self: Box<Self>,
        own: TablesPlan,
        data: TableData,
        learn: Learn,
        about: (String, u64),
    ) -> Box<dyn AnyWorkload>;

    fn on_examples(self: Box<Self>, own: &TablesPlan, learn: Learn) -> Box<dyn AnyModel>;

    fn serve(
        &self,
        own: (&TablesPlan, Learn),
        coding: Coding,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError>;
}

/// Initializes a network with the weights of its losses.
fn init<N: RowNetwork>(own: &TablesPlan, network: N, device: &Device) -> RowModel<N> {
    let targets = &own.targets;
    RowModel::new(network, targets.weighting.init(targets.targets.len(), device))
}

impl<N: RowNetwork, F: Fn(&Device) -> N + 'static> Init for F {
    fn with_data(
        self: Box<Self>,
        own: TablesPlan,
        data: TableData,
        learn: Learn,
        (about, multiply_adds): (String, u64),
    ) -> Box<dyn AnyWorkload> {
        let plan = own.clone();
        let init = move |device: &Device| init(&plan, self(device), device);
        Box::new(Rows { own, data, learn, about, multiply_adds, init: Box::new(init) })
    }

    fn on_examples(self: Box<Self>, own: &TablesPlan, learn: Learn) -> Box<dyn AnyModel> {
        let plan = own.clone();
        let init = move |device: &Device| init(&plan, self(device), device);
        Box::new(OnExamples { task: learn, init })
    }

    fn serve(
        &self,
        (own, learn): (&TablesPlan, Learn),
        coding: Coding,
        plan: &Plan,
        folder: &RunFolder,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let fresh = init(own, self(device), device);
        let model = load(fresh, plan, folder)?;
        let (own, on) = (own.clone(), (plan.precision, device.clone()));
        Ok(Box::new(RowPredictor::new(model, own, learn, coding, on)))
    }
}
