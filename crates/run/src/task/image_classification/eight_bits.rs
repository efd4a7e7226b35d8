//! A trained network on its way into eight bits.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{ImageSource, Loader, Split, Subset, stratified_sample};
use updraft_quant::Graph;

use super::ImagePlan;
use super::data::{ImageData, plain_loader};
use super::model::Classifier;
use crate::config::TrainPlan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::{CalibrationSamples, LabeledBatches, Quantizable};

/// Images that are read together.
const BATCH: usize = 64;

/// The file of a run's folder that lists the training images for calibration: a [`Split`] of the
/// training set whose held-out part they are.
const CALIBRATION: &str = "calibration.json";

/// A trained network in f32 with its images.
pub(super) struct EightBits<N> {
    pub(super) own: ImagePlan,
    pub(super) data: ImageData,
    pub(super) train: TrainPlan,
    pub(super) seed: u64,
    pub(super) network: N,
    pub(super) device: Device,
}

impl<N: Classifier> EightBits<N> {
    fn batches(
        &self,
        images: Arc<dyn ImageSource>,
    ) -> Result<(LabeledBatches<'static>, usize), RunError> {
        let batch = BATCH.min(images.len().max(1));
        let loader = plain_loader(&self.own.data, &self.train, images, batch)?;
        let samples = loader.samples();
        Ok((labeled(&loader), samples))
    }
}

fn labeled(loader: &Loader) -> LabeledBatches<'static> {
    Box::new(loader.epoch(0).map(|batch| {
        let batch = batch?;
        Ok((batch.planes().to_vec(), batch.labels().to_vec()))
    }))
}

impl<N: Classifier> Quantizable for EightBits<N> {
    fn input_shape(&self) -> [usize; 3] {
        let (height, width) = self.own.data.size();
        [3, height, width]
    }

    fn capture(&self) -> Result<Graph, RunError> {
        let graph = Graph::try_capture(&self.network, self.input_shape(), N::classify);
        graph.map_err(RunError::model)
    }

    fn outputs(&self, inputs: &[f32]) -> Vec<f32> {
        let [channels, height, width] = self.input_shape();
        let batch = inputs.len() / (channels * height * width);
        let images = TensorData::new(inputs.to_vec(), [batch, channels, height, width]);
        let logits = self.network.classify(Tensor::from_data(images, &self.device));
        logits.into_data().iter().collect()
    }

    fn plant_outliers(&mut self, factor: f32) -> Result<(), RunError> {
        self.network = self.network.clone().with_outliers(factor)?;
        Ok(())
    }

    fn test(&self) -> Result<(LabeledBatches<'_>, usize), RunError> {
        self.batches(self.data.test.clone())
    }

    fn calibration(
        &self,
        folder: &RunFolder,
        count: usize,
    ) -> Result<Box<dyn CalibrationSamples + '_>, RunError> {
        let (train, set) = (&self.data.train, self.data.train.fingerprint());
        let count = count.min(train.len());
        let path = folder.path().join(CALIBRATION);
        let written = if path.exists() { Some(Split::read(&set, &path)?) } else { None };
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

/// Training images of all classes, each class with its share.
struct CalibrationImages<'a, N> {
    of: &'a EightBits<N>,
    images: Arc<Subset>,
    set: String,
    split: Split,
}

impl<N: Classifier> CalibrationSamples for CalibrationImages<'_, N> {
    fn fingerprint(&self) -> String {
        self.images.fingerprint()
    }

    fn batches(&self) -> Result<(LabeledBatches<'_>, usize), RunError> {
        self.of.batches(self.images.clone())
    }

    fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        Ok(self.split.write(&self.set, folder.path().join(CALIBRATION))?)
    }
}
