//! A network of any kind, before its parameters are initialized.

use burn::tensor::Device;
use updraft_quant::Graph;

use super::TablesPlan;
use super::data::TableData;
use super::forward::{BehindEmbeddings, InPrecision};
use super::learn::Learn;
use super::model::{RowModel, RowNetwork};
use super::predict::{Coding, RowPredictor};
use super::workload::Rows;
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::Int8Network;
use crate::operation::{AnyModel, AnyWorkload, OnExamples, load, load_stored};
use crate::task::LoadedModel;
use crate::task::capture_device::capture_device;

/// The sizes of a network that follow from its configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// The numbers of a row's embeddings.
    pub(super) inputs: usize,
    /// Multiply-adds of the forward pass of one row.
    pub(super) multiply_adds: u64,
}

impl Sizes {
    pub(super) const fn new(inputs: usize, multiply_adds: u64) -> Self {
        Self { inputs, multiply_adds }
    }
}

/// A network of any kind, before its parameters are initialized.
pub(super) struct Network {
    about: String,
    sizes: Sizes,
    init: Box<dyn Init>,
}

impl Network {
    pub(super) fn new<N: RowNetwork>(
        about: String,
        sizes: Sizes,
        init: impl Fn(&Device) -> N + 'static,
    ) -> Self {
        Self { about, sizes, init: Box::new(init) }
    }

    /// Combines the network with its rows.
    pub(super) fn with_data(
        self,
        own: TablesPlan,
        data: TableData,
        learn: Learn,
    ) -> Box<dyn AnyWorkload> {
        self.init.with_data(own, data, learn, (self.about, self.sizes))
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

    /// The same with the int8 network of the run.
    pub(super) fn serve_int8(
        &self,
        (own, learn): (&TablesPlan, Learn),
        coding: Coding,
        (plan, folder): (&Plan, &RunFolder),
        network: Int8Network,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        self.init.serve_int8((own, learn), coding, (plan, folder), network, device)
    }

    /// The layers behind the embeddings, with parameters of any value.
    pub(super) fn graph(&self, own: &TablesPlan) -> Result<Graph, RunError> {
        self.init.graph(own, self.sizes.inputs)
    }

    /// The numbers of a row's embeddings.
    pub(super) const fn inputs(&self) -> usize {
        self.sizes.inputs
    }
}

/// Operations on a network; implemented for every function that initializes a [`RowNetwork`].
trait Init {
    fn with_data(
        self: Box<Self>,
        own: TablesPlan,
        data: TableData,
        learn: Learn,
        about: (String, Sizes),
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

    fn serve_int8(
        &self,
        own: (&TablesPlan, Learn),
        coding: Coding,
        run: (&Plan, &RunFolder),
        network: Int8Network,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError>;

    fn graph(&self, own: &TablesPlan, inputs: usize) -> Result<Graph, RunError>;
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
        (about, sizes): (String, Sizes),
    ) -> Box<dyn AnyWorkload> {
        let plan = own.clone();
        let init = move |device: &Device| init(&plan, self(device), device);
        Box::new(Rows { own, data, learn, about, sizes, init: Box::new(init) })
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
        let network = InPrecision::new(model, plan.precision);
        let own = own.clone();
        Ok(Box::new(RowPredictor { network, own, learn, coding, device: device.clone() }))
    }

    fn serve_int8(
        &self,
        (own, learn): (&TablesPlan, Learn),
        coding: Coding,
        (plan, folder): (&Plan, &RunFolder),
        network: Int8Network,
        device: &Device,
    ) -> Result<Box<dyn LoadedModel>, RunError> {
        let model = load_stored(init(own, self(device), device), plan, folder)?;
        let (network, own) = (BehindEmbeddings { model, network }, own.clone());
        Ok(Box::new(RowPredictor { network, own, learn, coding, device: device.clone() }))
    }

    fn graph(&self, own: &TablesPlan, inputs: usize) -> Result<Graph, RunError> {
        let device = capture_device();
        init(own, self(&device), &device).capture(inputs)
    }
}
