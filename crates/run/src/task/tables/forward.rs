//! The forms of a trained network that predict the targets of rows.

use std::fmt::Debug;

use burn::tensor::{FloatDType, Tensor};
use updraft_precision::Policy;
use updraft_trainer::CaptureReport;

use super::learn::RowInput;
use super::model::{RowModel, RowNetwork};
use crate::int8_network::Int8Network;
use crate::operation::{LayerNames, layer_names};
use crate::task::Replayable;

/// A trained network that predicts the targets of rows.
pub(super) trait Forward: Debug + Send {
    /// The outputs of each target in f32, `[rows, width]`.
    fn outputs(&self, rows: RowInput) -> Vec<Tensor<2>>;

    fn layer_names(&self) -> LayerNames;

    /// Records the forward pass at its next call and replays it then.
    ///
    /// # Errors
    /// The reason why it cannot be.
    fn capture(&mut self) -> Result<(), &'static str>;

    /// How captured calls were computed.
    fn capture_report(&self) -> Option<CaptureReport>;
}

/// A trained network in the precision of its run.
#[derive(Debug)]
pub(super) struct InPrecision<N> {
    model: RowModel<N>,
    policy: Policy,
    replayable: Replayable<RowInput, Vec<Tensor<2>>>,
}

impl<N: RowNetwork> InPrecision<N> {
    pub(super) fn new(model: RowModel<N>, policy: Policy) -> Self {
        Self { model, policy, replayable: Replayable::default() }
    }
}

/// The outputs of each target in f32.
fn outputs_in_f32<N: RowNetwork>(
    model: &RowModel<N>,
    policy: Policy,
    (classes, numbers): RowInput,
) -> Vec<Tensor<2>> {
    let numbers = numbers.cast(policy.compute);
    let outputs = policy.scope(|| model.outputs(classes, numbers));
    let in_f32 = |outputs: Tensor<2>| outputs.cast(policy.output).cast(FloatDType::F32);
    outputs.into_iter().map(in_f32).collect()
}

impl<N: RowNetwork> Forward for InPrecision<N> {
    fn outputs(&self, rows: RowInput) -> Vec<Tensor<2>> {
        self.replayable.call(rows, |rows| outputs_in_f32(&self.model, self.policy, rows))
    }

    fn layer_names(&self) -> LayerNames {
        layer_names(&self.model)
    }

    fn capture(&mut self) -> Result<(), &'static str> {
        let (model, policy) = (self.model.clone(), self.policy);
        self.replayable.capture(move |rows| outputs_in_f32(&model, policy, rows));
        Ok(())
    }

    fn capture_report(&self) -> Option<CaptureReport> {
        self.replayable.report()
    }
}

/// The int8 network of a run, behind the embeddings of its model in f32.
#[derive(Debug)]
pub(super) struct BehindEmbeddings<N> {
    pub(super) model: RowModel<N>,
    pub(super) network: Int8Network,
}

impl<N: RowNetwork> Forward for BehindEmbeddings<N> {
    fn outputs(&self, (classes, numbers): RowInput) -> Vec<Tensor<2>> {
        self.network.forward_all(self.model.embed(classes, numbers))
    }

    fn layer_names(&self) -> LayerNames {
        LayerNames::new()
    }

    fn capture(&mut self) -> Result<(), &'static str> {
        Err("an int8 network computes on the CPU, which records nothing")
    }

    fn capture_report(&self) -> Option<CaptureReport> {
        None
    }
}
