//! Quantization of a trained network.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{DataError, ImageSource, Split, Subset, stratified_sample};
use updraft_quant::slices::Isa;
use updraft_quant::{
    Accuracy, Evaluation, Graph, Observation, Quantization, QuantizedModel, Sensitivity,
    WeightFormat,
};

use super::ImagePlan;
use super::classifier::Classifier;
use super::data::{ImageData, plain_loader};
use crate::config::TrainPlan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::quantizable::first_inputs;
use crate::task::{
    CalibrationSamples, InputBatches, Quantizable, ScoredBatches, evaluated, measured,
};

/// The batch size of reading images.
const BATCH: usize = 64;

/// The file of a run's folder that lists the training images for calibration: a [`Split`] of the
/// training set whose held-out part they are.
const CALIBRATION: &str = "calibration.json";

/// A trained network in f32 with its images.
pub(super) struct QuantizableClassifier<N> {
    pub(super) own: ImagePlan,
    pub(super) data: ImageData,
    pub(super) train: TrainPlan,
    pub(super) seed: u64,
    pub(super) network: N,
    pub(super) device: Device,
}

impl<N: Classifier> QuantizableClassifier<N> {
    /// Channels, height and width of an image.
    fn image(&self) -> [usize; 3] {
        let (height, width) = self.own.data.size();
        [3, height, width]
    }

    fn batches(
        &self,
        images: Arc<dyn ImageSource>,
    ) -> Result<ScoredBatches<'static, usize>, RunError> {
        let batch = BATCH.min(images.len().max(1));
        let loader = plain_loader(&self.own.data, &self.train, images, batch)?;
        let samples = loader.samples();
        let batches = loader.epoch(0).map(|batch| {
            let batch = batch?;
            Ok((batch.planes().to_vec(), batch.labels().to_vec()))
        });
        Ok((Box::new(batches), samples))
    }
}

impl<N: Classifier> Quantizable for QuantizableClassifier<N> {
    fn input_shape(&self) -> Vec<usize> {
        self.image().to_vec()
    }

    fn capture(&self) -> Result<Graph, RunError> {
        let graph = Graph::try_capture(&self.network, self.image(), N::classify);
        graph.map_err(RunError::model)
    }

    fn outputs(&self, inputs: &[f32]) -> Vec<f32> {
        let [channels, height, width] = self.image();
        let batch = inputs.len() / (channels * height * width);
        let images = TensorData::new(inputs.to_vec(), [batch, channels, height, width]);
        let logits = self.network.classify(Tensor::from_data(images, &self.device));
        logits.into_data().iter().collect()
    }

    fn plant_outliers(&mut self, factor: f32) -> Result<(), RunError> {
        self.network = self.network.clone().with_outliers(factor)?;
        Ok(())
    }

    fn first_inputs(&self) -> Result<Vec<f32>, RunError> {
        first_inputs(self.batches(self.data.test.clone())?)
    }

    fn evaluate(
        &self,
        graph: &Graph,
        model: &QuantizedModel,
        isa: Isa,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Evaluation>, RunError> {
        let batches = self.batches(self.data.test.clone())?;
        evaluated(graph, model, batches, &Accuracy, isa, watch)
    }

    fn calibration(
        &self,
        folder: &RunFolder,
        count: usize,
    ) -> Result<Box<dyn CalibrationSamples + '_>, RunError> {
        let (train, set) = (&self.data.train, self.data.train.fingerprint());
        let count = count.min(train.len());
        let path = folder.path().join(CALIBRATION);
        let written = path.exists().then(|| Split::read(&set, &path)).transpose();
        let written = written.map_err(|error| match error {
            DataError::Split { path, reason } => RunError::Unusable {
                reason: format!(
                    "`{}` is not a train/test split of this data: {reason}; delete it, after which \
                     the images for calibration are chosen again, or use the data that the run was \
                     trained on",
                    path.display()
                ),
            },
            other => other.into(),
        })?;
        let split = match written.filter(|split| split.held_out.len() == count) {
            Some(split) => split,
            None => {
                let labels: Vec<usize> = (0..train.len()).map(|at| train.label(at)).collect();
                stratified_sample(&labels, count, self.seed)?
            }
        };
        let images = Arc::new(Subset::try_new(train.clone(), split.held_out.clone())?);
        Ok(Box::new(CalibrationImages { of: self, images, set, split }))
    }
}

/// A stratified sample of the training images.
struct CalibrationImages<'a, N> {
    of: &'a QuantizableClassifier<N>,
    images: Arc<Subset>,
    set: String,
    split: Split,
}

impl<N: Classifier> CalibrationSamples for CalibrationImages<'_, N> {
    fn fingerprint(&self) -> String {
        self.images.fingerprint()
    }

    fn batches(&self) -> Result<(InputBatches<'_>, usize), RunError> {
        let (batches, samples) = self.of.batches(self.images.clone())?;
        Ok((Box::new(batches.map(|batch| batch.map(|(inputs, _)| inputs))), samples))
    }

    fn evaluate(
        &self,
        graph: &Graph,
        model: &QuantizedModel,
        isa: Isa,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Evaluation>, RunError> {
        let batches = self.of.batches(self.images.clone())?;
        evaluated(graph, model, batches, &Accuracy, isa, watch)
    }

    fn sensitivity(
        &self,
        observation: &Observation,
        settings: (&Quantization, &[WeightFormat]),
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Sensitivity>, RunError> {
        let batches = self.of.batches(self.images.clone())?;
        measured(observation, settings, batches, &Accuracy, watch)
    }

    fn file(&self) -> Option<(&'static str, Vec<u8>)> {
        Some((CALIBRATION, self.split.to_json(&self.set)))
    }
}
