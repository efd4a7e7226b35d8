//! Quantization of a trained network of images.

use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};
use updraft_data::{
    Digest, LastBatch, Loader, NormalizeChannels, Order, SampleCollate, SampleConfig, SampleSource,
};
use updraft_quant::slices::Isa;
use updraft_quant::{
    Evaluation, Graph, Observation, Port, Quantization, QuantizedModel, Score, Sensitivity,
    SquaredError, WeightFormat,
};
use updraft_trainer::{MaskActivation, StreamError};

use super::ImagePlan;
use super::image_network::ImageNetwork;
use super::target::ImageTarget;
use crate::config::WorkersPlan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::image_pairs::data::ImagePairs;
use crate::task::image_pairs::objective::Objective;
use crate::task::quantizable::{NO_OUTLIERS, first_inputs};
use crate::task::{
    CalibrationSamples, InputBatches, Quantizable, ScoredBatches, evaluated, measured,
};

/// The batch size of reading windows.
const BATCH: usize = 16;

/// A trained network in f32 with its images.
pub(super) struct QuantizableConverter<const D: usize, N> {
    pub(super) own: ImagePlan,
    pub(super) data: ImagePairs,
    pub(super) seed: u64,
    pub(super) workers: WorkersPlan,
    pub(super) network: N,
    pub(super) device: Device,
}

impl<const D: usize, N: ImageNetwork<D>> QuantizableConverter<D, N> {
    fn config(&self) -> SampleConfig {
        SampleConfig::new(BATCH)
            .with_workers(self.workers.into())
            .with_normalize(NormalizeChannels::default())
            .with_seed(self.seed)
    }

    /// The samples of a set in batches; `split` is its name in errors.
    fn loader(
        &self,
        samples: Arc<dyn SampleSource>,
        config: SampleConfig,
        split: &'static str,
    ) -> Result<Loader<SampleCollate>, RunError> {
        let loader = Loader::from_samples(samples, config);
        loader.map_err(|cause| RunError::Stream { split, cause: Box::new(cause) })
    }

    /// The test windows with the numbers of their targets.
    fn windows(&self) -> Result<ScoredBatches<'_, Vec<f32>>, RunError> {
        let loader = self.loader(self.data.test.clone(), self.config(), "test")?;
        Ok((Box::new(self.scored(loader)), self.data.test.len()))
    }

    /// The batches of a loader with the numbers of their targets.
    fn scored(
        &self,
        loader: Loader<SampleCollate>,
    ) -> impl Iterator<Item = Result<(Vec<f32>, Vec<Vec<f32>>), StreamError>> + '_ {
        loader.epoch(0).map(|batch| {
            let batch = batch?;
            let inputs = batch.values().to_vec();
            let targets = ImageTarget::<D>::of(&batch, self.own.data.labels, &self.device)?;
            let samples = targets.samples();
            let numbers: Vec<f32> = match targets {
                ImageTarget::Masks(labels) => labels.into_data().iter().collect(),
                ImageTarget::Image(image) => image.into_data().iter().collect(),
            };
            let each = numbers.len() / samples;
            Ok((inputs, numbers.chunks_exact(each).map(<[f32]>::to_vec).collect()))
        })
    }
}

impl<const D: usize, N: ImageNetwork<D>> Quantizable for QuantizableConverter<D, N> {
    fn input_shape(&self) -> Vec<usize> {
        std::iter::once(self.data.shape.inputs).chain(self.own.data.patch.iter().copied()).collect()
    }

    fn capture(&self) -> Result<Graph, RunError> {
        self.network.capture(&self.input_shape())
    }

    fn outputs(&self, inputs: &[f32]) -> Vec<f32> {
        let shape = self.input_shape();
        let batch = inputs.len() / shape.iter().product::<usize>();
        let dims: [usize; D] =
            std::array::from_fn(|axis| if axis == 0 { batch } else { shape[axis - 1] });
        let data = TensorData::new(inputs.to_vec(), dims);
        let images = Tensor::<D>::from_data(data, (&self.device, DType::F32));
        self.network.convert(images).into_data().iter().collect()
    }

    fn plant_outliers(&mut self, _: f32) -> Result<(), RunError> {
        Err(RunError::model(NO_OUTLIERS))
    }

    fn first_inputs(&self) -> Result<Vec<f32>, RunError> {
        first_inputs(self.windows()?)
    }

    fn evaluate(
        &self,
        graph: &Graph,
        model: &QuantizedModel,
        isa: Isa,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Evaluation>, RunError> {
        let windows = self.windows()?;
        match self.own.objective {
            Objective::Masks { classes, activation, .. } => {
                evaluated(graph, model, windows, &MaskDice { classes, activation }, isa, watch)
            }
            Objective::Images { .. } => evaluated(graph, model, windows, &SquaredError, isa, watch),
        }
    }

    fn calibration(
        &self,
        _: &RunFolder,
        count: usize,
    ) -> Result<Box<dyn CalibrationSamples + '_>, RunError> {
        Ok(Box::new(CalibrationPatches { of: self, count: count.min(self.data.train.len()) }))
    }
}

/// The first patches of a training epoch, without augmentation: the run's seed determines them.
struct CalibrationPatches<'a, const D: usize, N> {
    of: &'a QuantizableConverter<D, N>,
    count: usize,
}

impl<const D: usize, N: ImageNetwork<D>> CalibrationPatches<'_, D, N> {
    fn loader(&self) -> Result<Loader<SampleCollate>, RunError> {
        let config = self.of.config().with_order(Order::Shuffled).with_last(LastBatch::Keep);
        self.of.loader(self.of.data.train.clone(), config, "training")
    }

    /// The patches with the numbers of their targets.
    fn scored(&self) -> Result<ScoredBatches<'_, Vec<f32>>, RunError> {
        let each: usize = self.of.input_shape().iter().product();
        let mut left = self.count;
        let batches = self.of.scored(self.loader()?).map_while(move |batch| {
            if left == 0 {
                return None;
            }
            Some(batch.map(|(mut inputs, mut targets)| {
                targets.truncate(left);
                inputs.truncate(targets.len() * each);
                left -= targets.len();
                (inputs, targets)
            }))
        });
        Ok((Box::new(batches), self.count))
    }
}

impl<const D: usize, N: ImageNetwork<D>> CalibrationSamples for CalibrationPatches<'_, D, N> {
    fn fingerprint(&self) -> String {
        Digest::new("updraft calibration patches")
            .text(&self.of.data.shape.fingerprint)
            .text(&format!("{} of seed {}", self.count, self.of.seed))
            .hex()
    }

    fn batches(&self) -> Result<(InputBatches<'_>, usize), RunError> {
        let loader = self.loader()?;
        let mut left = self.count;
        let each: usize = self.of.input_shape().iter().product();
        let batches = loader.epoch(0).map_while(move |batch| {
            if left == 0 {
                return None;
            }
            let taken = batch.map(|batch| {
                let mut inputs = batch.values().to_vec();
                inputs.truncate(left * each);
                left -= inputs.len() / each;
                inputs
            });
            Some(taken.map_err(Into::into))
        });
        Ok((Box::new(batches), self.count))
    }

    fn evaluate(
        &self,
        graph: &Graph,
        model: &QuantizedModel,
        isa: Isa,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Evaluation>, RunError> {
        let windows = self.scored()?;
        match self.of.own.objective {
            Objective::Masks { classes, activation, .. } => {
                evaluated(graph, model, windows, &MaskDice { classes, activation }, isa, watch)
            }
            Objective::Images { .. } => evaluated(graph, model, windows, &SquaredError, isa, watch),
        }
    }

    fn sensitivity(
        &self,
        observation: &Observation,
        settings: (&Quantization, &[WeightFormat]),
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Sensitivity>, RunError> {
        let windows = self.scored()?;
        match self.of.own.objective {
            Objective::Masks { classes, activation, .. } => {
                measured(observation, settings, windows, &MaskDice { classes, activation }, watch)
            }
            Objective::Images { .. } => {
                measured(observation, settings, windows, &SquaredError, watch)
            }
        }
    }

    /// The plan of the run has the seed.
    fn file(&self) -> Option<(&'static str, Vec<u8>)> {
        None
    }
}

/// The Dice coefficient of a window, the mean of all classes but the background; 1 for a class that
/// neither mask has.
#[derive(Debug, Clone, Copy)]
struct MaskDice {
    classes: usize,
    activation: MaskActivation,
}

impl MaskDice {
    /// The class of every position.
    fn found(self, logits: &[f32], positions: usize) -> impl Iterator<Item = usize> + '_ {
        (0..positions).map(move |at| match self.activation {
            MaskActivation::Sigmoid => usize::from(logits[at] > 0.0),
            MaskActivation::Softmax => {
                let of = |class: usize| logits[class * positions + at];
                (1..self.classes)
                    .fold(0, |best, class| if of(class) > of(best) { class } else { best })
            }
        })
    }
}

impl Score for MaskDice {
    type Target = Vec<f32>;

    fn name(&self) -> &'static str {
        "dice per window"
    }

    fn score(&self, outputs: &[&[f32]], labels: &Vec<f32>) -> f64 {
        let mut counts = vec![[0_u64; 3]; self.classes];
        for (found, &label) in self.found(outputs[0], labels.len()).zip(labels) {
            let label = label as usize;
            counts[found][0] += 1;
            counts[label][1] += 1;
            counts[label][2] += u64::from(found == label);
        }
        let dice = counts[1..].iter().map(|&[found, labelled, both]| match found + labelled {
            0 => 1.0,
            sum => 2.0 * both as f64 / sum as f64,
        });
        dice.sum::<f64>() / (self.classes - 1) as f64
    }

    fn is_share(&self) -> bool {
        true
    }

    fn check(&self, labels: &Vec<f32>, outputs: &[Port]) -> Result<(), String> {
        let channels = match self.activation {
            MaskActivation::Sigmoid => 1,
            MaskActivation::Softmax => self.classes,
        };
        let expected = channels * labels.len();
        if outputs[0].numbers() != expected {
            return Err(format!(
                "{} positions of {channels} channels where the output has {} numbers",
                labels.len(),
                outputs[0].numbers()
            ));
        }
        match labels.iter().find(|&&label| label < 0.0 || label as usize >= self.classes) {
            Some(label) => Err(format!("class {label} of {}, counted from 0", self.classes)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use updraft_quant::Calibration;

    use super::*;

    #[test]
    fn dice_is_as_counted_by_hand() {
        let dice = MaskDice { classes: 3, activation: MaskActivation::Softmax };
        // Classes 0, 1, 1, 2 by the greatest of three channels; the labels are 0, 1, 2, 2.
        let logits = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let expected = (2.0 / 3.0 + 2.0 / 3.0) / 2.0;
        assert!((dice.score(&[&logits], &vec![0.0, 1.0, 2.0, 2.0]) - expected).abs() < 1e-12);
        // Neither mask has class 2.
        let none = dice.score(&[&[0.0, 1.0, 0.0]], &vec![1.0]);
        assert!((none - 1.0).abs() < 1e-12);
        let sigmoid = MaskDice { classes: 2, activation: MaskActivation::Sigmoid };
        assert!(sigmoid.score(&[&[1.0, -1.0]], &vec![0.0, 1.0]).abs() < 1e-12);
    }

    #[test]
    fn labels_that_do_not_fit_the_output_are_refused() {
        let mut graph = Graph::new();
        let x = graph.input("image", &[3, 1, 2]).expect("an input");
        graph.rectifier("logits", x);
        let model = QuantizedModel::try_quantize(&graph, [[0.5_f32; 6]], Calibration::MinMax);
        let outputs: Vec<Port> = model.expect("a model").outputs().cloned().collect();
        let dice = MaskDice { classes: 3, activation: MaskActivation::Softmax };
        dice.check(&vec![0.0, 2.0], &outputs).expect("two positions of three classes");
        let refusal = |labels: &[f32]| dice.check(&labels.to_vec(), &outputs).expect_err("refused");
        assert_eq!(refusal(&[0.0, 3.0]), "class 3 of 3, counted from 0");
        assert_eq!(refusal(&[0.0]), "1 positions of 3 channels where the output has 6 numbers");
    }
}
