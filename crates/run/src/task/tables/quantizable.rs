//! Quantization of a trained network.

use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{Collate, Digest, Part};
use updraft_quant::slices::Isa;
use updraft_quant::{
    Evaluation, Graph, Observation, Quantization, QuantizedModel, Sensitivity, WeightFormat,
};

use super::data::TableData;
use super::importance::sample;
use super::learn::{Learn, place_rows};
use super::model::{RowModel, RowNetwork};
use super::row_score::{RowScore, Truths, truths};
use super::rows::RowBatch;
use crate::config::TrainPlan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::quantizable::{NO_OUTLIERS, first_inputs};
use crate::task::{
    CalibrationSamples, InputBatches, Quantizable, ScoredBatches, evaluated, measured,
};

/// A trained network in f32 with its rows; what is quantized takes their embeddings.
pub(super) struct QuantizableRows<N> {
    pub(super) data: TableData,
    pub(super) learn: Learn,
    pub(super) train: TrainPlan,
    pub(super) seed: u64,
    pub(super) model: RowModel<N>,
    /// The numbers of a row's embeddings.
    pub(super) inputs: usize,
    pub(super) device: Device,
}

impl<N: RowNetwork> QuantizableRows<N> {
    fn score(&self) -> RowScore<'_> {
        RowScore(&self.learn.targets)
    }

    /// The embeddings of the rows of a batch, one row after the other.
    fn embedded(&self, batch: &RowBatch) -> Vec<f32> {
        let input = (batch.classes.clone(), batch.numbers.clone());
        let (classes, numbers) = place_rows(input, batch.indices.len(), &self.device);
        self.model.embed(classes, numbers).into_data().iter().collect()
    }

    /// The embeddings of rows with their targets; a row without any target is left out.
    fn scored(&self, batch: &RowBatch) -> (Vec<f32>, Vec<Truths>) {
        let all = self.embedded(batch);
        let (mut inputs, mut targets) = (Vec::with_capacity(all.len()), Vec::new());
        for (row, truths) in all.chunks_exact(self.inputs).zip(truths(batch)) {
            if truths.iter().any(Option::is_some) {
                inputs.extend_from_slice(row);
                targets.push(truths);
            }
        }
        (inputs, targets)
    }

    /// The test rows with their targets.
    fn test(&self) -> Result<ScoredBatches<'_, Truths>, RunError> {
        let [_, test] = self.data.loaders(&self.train, self.seed, Part::WHOLE)?;
        let batches = test.epoch(0).map(|batch| Ok(self.scored(&batch?)));
        Ok((Box::new(batches), self.data.test.rows_with_targets()))
    }
}

impl<N: RowNetwork> Quantizable for QuantizableRows<N> {
    fn input_shape(&self) -> Vec<usize> {
        vec![self.inputs]
    }

    fn capture(&self) -> Result<Graph, RunError> {
        self.model.capture(self.inputs)
    }

    fn outputs(&self, inputs: &[f32]) -> Vec<f32> {
        let rows = inputs.len() / self.inputs;
        let features = TensorData::new(inputs.to_vec(), [rows, self.inputs]);
        let features = Tensor::<2>::from_data(features, &self.device);
        Tensor::cat(self.model.outputs_of(features), 1).into_data().iter().collect()
    }

    fn plant_outliers(&mut self, _: f32) -> Result<(), RunError> {
        Err(RunError::model(NO_OUTLIERS))
    }

    fn first_inputs(&self) -> Result<Vec<f32>, RunError> {
        first_inputs(self.test()?)
    }

    fn evaluate(
        &self,
        graph: &Graph,
        model: &QuantizedModel,
        isa: Isa,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Evaluation>, RunError> {
        evaluated(graph, model, self.test()?, &self.score(), isa, watch)
    }

    fn calibration(
        &self,
        _: &RunFolder,
        count: usize,
    ) -> Result<Box<dyn CalibrationSamples + '_>, RunError> {
        let train = &self.data.train;
        // Whole rows, without categories that training replaces by unknown.
        let rows = sample(&train.undrawn().unwrap_or_else(|| train.clone()), count)?;
        Ok(Box::new(CalibrationRows { of: self, rows }))
    }
}

/// Training rows that are evenly spaced over the set.
struct CalibrationRows<'a, N> {
    of: &'a QuantizableRows<N>,
    rows: RowBatch,
}

impl<N: RowNetwork> CalibrationRows<'_, N> {
    fn scored(&self) -> ScoredBatches<'_, Truths> {
        let batch = self.of.scored(&self.rows);
        let rows = batch.1.len();
        (Box::new(std::iter::once(Ok(batch))), rows)
    }
}

impl<N: RowNetwork> CalibrationSamples for CalibrationRows<'_, N> {
    fn fingerprint(&self) -> String {
        Digest::new("updraft calibration rows")
            .text(&self.of.data.train.fingerprint())
            .number(self.rows.indices.len())
            .hex()
    }

    fn batches(&self) -> Result<(InputBatches<'_>, usize), RunError> {
        let inputs = self.of.embedded(&self.rows);
        Ok((Box::new(std::iter::once(Ok(inputs))), self.rows.indices.len()))
    }

    fn evaluate(
        &self,
        graph: &Graph,
        model: &QuantizedModel,
        isa: Isa,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Evaluation>, RunError> {
        evaluated(graph, model, self.scored(), &self.of.score(), isa, watch)
    }

    fn sensitivity(
        &self,
        observation: &Observation,
        settings: (&Quantization, &[WeightFormat]),
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Sensitivity>, RunError> {
        measured(observation, settings, self.scored(), &self.of.score(), watch)
    }

    /// Nothing has to be stored: the training rows of the run determine the choice.
    fn file(&self) -> Option<(&'static str, Vec<u8>)> {
        None
    }
}
