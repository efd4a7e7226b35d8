//! A trained network that classifies image files.

use std::fmt::Debug;
use std::path::Path;

use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{Normalize, decode};
use updraft_precision::Policy;
use updraft_trainer::CaptureReport;

use super::classifier::Classifier;
use super::data::normalization;
use super::data_plan::DataPlan;
use super::resize_plan::ResizePlan;
use crate::bounded::{self, IMAGE_BYTES};
use crate::error::RunError;
use crate::int8_network::Int8Network;
use crate::operation::{LayerNames, layer_names};
use crate::task::{ClassProbability, LoadedModel, Outcome, Predicted, Replayable};

/// A network whose outputs are logits.
pub(super) trait Logits: Debug + Send {
    /// From `[batch, 3, height, width]` to `[batch, classes]`.
    fn logits(&self, images: Tensor<4>) -> Tensor<2>;

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
    network: N,
    policy: Policy,
    replayable: Replayable<Tensor<4>, Tensor<2>>,
}

impl<N: Classifier> InPrecision<N> {
    pub(super) fn new(network: N, policy: Policy) -> Self {
        Self { network, policy, replayable: Replayable::default() }
    }
}

fn logits_of<N: Classifier>(network: &N, policy: Policy, images: Tensor<4>) -> Tensor<2> {
    let images = images.cast(policy.compute);
    policy.scope(|| network.classify(images)).cast(policy.output)
}

impl<N: Classifier> Logits for InPrecision<N> {
    fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        self.replayable.call(images, |images| logits_of(&self.network, self.policy, images))
    }

    fn layer_names(&self) -> LayerNames {
        layer_names(&self.network)
    }

    fn capture(&mut self) -> Result<(), &'static str> {
        let (network, policy) = (self.network.clone(), self.policy);
        self.replayable.capture(move |images| logits_of(&network, policy, images));
        Ok(())
    }

    fn capture_report(&self) -> Option<CaptureReport> {
        self.replayable.report()
    }
}

impl Logits for Int8Network {
    fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward(images)
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

/// A trained network with the preprocessing of its images.
#[derive(Debug)]
pub(super) struct ImageClassifier<N> {
    network: N,
    size: (usize, usize),
    resize: ResizePlan,
    normalize: Normalize,
    classes: Vec<String>,
    device: Device,
}

impl<N: Logits> ImageClassifier<N> {
    pub(super) fn new(network: N, data: &DataPlan, classes: Vec<String>, device: Device) -> Self {
        let (size, resize, normalize) = (data.size(), data.resize, normalization(data));
        Self { network, size, resize, normalize, classes, device }
    }
}

impl<N: Logits> LoadedModel for ImageClassifier<N> {
    fn layer_names(&self) -> LayerNames {
        self.network.layer_names()
    }

    fn capture(&mut self) -> Result<(), &'static str> {
        self.network.capture()
    }

    fn capture_report(&self) -> Option<CaptureReport> {
        self.network.capture_report()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Classifies an image file: JPEG, PNG or TIFF, of any size.
    fn predict(&self, path: &Path) -> Result<Vec<Predicted>, RunError> {
        let bytes = bounded::read(path, IMAGE_BYTES)?;
        let name = path.display().to_string();
        let (height, width) = self.size;
        let image = self.resize.fit(decode(&bytes, &name)?, self.size);
        let pixels = TensorData::new(self.normalize.planes(&image), [1, 3, height, width]);
        let images = Tensor::<4>::from_data(pixels, &self.device);
        let probabilities = softmax(self.network.logits(images), 1).into_data();
        if !probabilities.iter::<f32>().all(f32::is_finite) {
            let cause = "the model's prediction for it is not finite".into();
            return Err(RunError::Input { path: path.to_owned(), cause });
        }
        let pairs = self.classes.iter().zip(probabilities.iter::<f32>());
        let mut classes: Vec<ClassProbability> = pairs
            .map(|(class, probability)| ClassProbability { class: class.clone(), probability })
            .collect();
        classes.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        Ok(vec![Predicted { sample: name, outcome: Outcome::Classes(classes) }])
    }
}
