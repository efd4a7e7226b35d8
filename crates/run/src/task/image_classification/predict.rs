//! A trained network that classifies image files.

use std::path::Path;

use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{Normalize, decode};
use updraft_precision::Policy;

use super::ImagePlan;
use super::data::normalization;
use super::model::{Classifier, UseNetwork};
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::operation::load;
use crate::task::{ClassProbability, Outcome, Predicted, Serving};

/// Loads the network of a run.
pub(super) struct Load<'a> {
    pub(super) own: &'a ImagePlan,
    pub(super) plan: &'a Plan,
    pub(super) folder: &'a RunFolder,
    pub(super) device: &'a Device,
    pub(super) classes: Vec<String>,
}

impl UseNetwork for Load<'_> {
    type Output = Result<Box<dyn Serving>, RunError>;

    fn with<N: Classifier>(self, init: impl Fn(&Device) -> N + 'static) -> Self::Output {
        let network = load(init(self.device), self.plan, self.folder)?;
        Ok(Box::new(ImageClassifier {
            network,
            size: self.own.data.size(),
            normalize: normalization(&self.own.data),
            policy: self.plan.precision,
            classes: self.classes,
            device: self.device.clone(),
        }))
    }
}

#[derive(Debug)]
struct ImageClassifier<N> {
    network: N,
    size: (usize, usize),
    normalize: Normalize,
    policy: Policy,
    classes: Vec<String>,
    device: Device,
}

impl<N: Classifier + Send> Serving for ImageClassifier<N> {
    fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Classifies an image file: JPEG, PNG or TIFF, of any size.
    fn predict(&self, path: &Path) -> Result<Vec<Predicted>, RunError> {
        let bytes = std::fs::read(path).map_err(|cause| RunError::io("read", path, cause))?;
        let name = path.display().to_string();
        let (height, width) = self.size;
        let image = decode(&bytes, &name)?.resize(height, width);
        let pixels = TensorData::new(self.normalize.planes(&image), [1, 3, height, width]);
        let images = Tensor::<4>::from_data(pixels, &self.device).cast(self.policy.compute);
        let logits = self.network.classify(images).cast(self.policy.output);
        let probabilities = softmax(logits, 1).into_data();
        let pairs = self.classes.iter().zip(probabilities.iter::<f32>());
        let mut classes: Vec<ClassProbability> = pairs
            .map(|(class, probability)| ClassProbability { class: class.clone(), probability })
            .collect();
        classes.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        Ok(vec![Predicted { sample: name, outcome: Outcome::Classes(classes) }])
    }
}
