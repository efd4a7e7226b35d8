//! The forms of a trained network that predict the targets of rows.

use std::fmt::Debug;

use burn::tensor::{FloatDType, Tensor};
use updraft_precision::Policy;

use super::learn::RowInput;
use super::model::{RowModel, RowNetwork};
use crate::int8_network::Int8Network;
use crate::operation::{LayerNames, layer_names};

/// A trained network that predicts the targets of rows.
pub(super) trait Forward: Debug + Send {
    /// The outputs of each target in f32, `[rows, width]`.
    fn outputs(&self, rows: RowInput) -> Vec<Tensor<2>>;

    fn layer_names(&self) -> LayerNames;
}

/// A trained network in the precision of its run.
#[derive(Debug)]
pub(super) struct InPrecision<N> {
    pub(super) model: RowModel<N>,
    pub(super) policy: Policy,
}

impl<N: RowNetwork> Forward for InPrecision<N> {
    fn outputs(&self, (classes, numbers): RowInput) -> Vec<Tensor<2>> {
        let numbers = numbers.cast(self.policy.compute);
        let outputs = self.policy.scope(|| self.model.outputs(classes, numbers));
        let in_f32 = |outputs: Tensor<2>| outputs.cast(self.policy.output).cast(FloatDType::F32);
        outputs.into_iter().map(in_f32).collect()
    }

    fn layer_names(&self) -> LayerNames {
        layer_names(&self.model)
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
}
