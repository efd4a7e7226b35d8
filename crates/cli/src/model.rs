//! A trained model, loaded from a run folder.

use std::path::Path;

use anyhow::{Context, Result};
use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};
use serde::Serialize;
use updraft_data::{Image, decode};
use updraft_trainer::load_model;

use crate::classifier::Classifier;
use crate::config::Plan;
use crate::device::choose;
use crate::run_folder::RunFolder;
use crate::workload::normalization;

/// A model trained by `updraft train`, ready to classify images.
///
/// # Example
/// ```
/// # let folder = std::env::temp_dir().join(format!("updraft-example-{}", std::process::id()));
/// # let train = ["updraft", "train", "--runs", folder.to_str().expect("a path in UTF-8")];
/// # let small = ["data.train_images=40", "data.test_images=20", "train.epochs=1"];
/// # let small = small.iter().flat_map(|setting| ["--set", *setting]);
/// # assert_eq!(updraft::run(train.into_iter().chain(small)), 0);
/// # let run = std::fs::read_dir(&folder)?.next().expect("one run")?.path();
/// # for name in ["first.png", "second.png"] {
/// #     image::RgbImage::new(40, 30).save(folder.join(name))?;
/// # }
/// let model = updraft::TrainedModel::load(run, "auto")?;
/// println!("{} classes", model.classes().len());
///
/// for path in ["first.png", "second.png"] {
///     let predictions = model.predict_file(folder.join(path))?;
///     let best = &predictions[0];
///     println!("{path}: {} ({:.1} %)", best.class, 100.0 * best.probability);
/// }
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TrainedModel {
    network: Classifier,
    plan: Plan,
    classes: Vec<String>,
    device: Device,
}

/// A class and how likely the model holds it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The class name.
    pub class: String,
    /// Softmax of the logits, in `[0, 1]`; not calibrated.
    pub probability: f32,
}

impl TrainedModel {
    /// Loads a run folder's model onto a device, named as in `updraft probe`: the best epoch's of a
    /// run with early stopping, else the newest checkpoint's.
    ///
    /// # Errors
    /// If the folder is no run folder, its checkpoint is damaged, or the device is not usable.
    pub fn load(run: impl AsRef<Path>, device: &str) -> Result<Self> {
        let folder = RunFolder::open(run.as_ref())?;
        let plan = folder.plan()?;
        let classes = folder.classes()?;
        let spec = device.parse().with_context(|| format!("device `{device}`"))?;
        let (device, _) = choose(&spec)?;
        let network = plan.network(classes.len());
        network.validate()?;
        let network = plan.precision.autocast(network.init(&device));
        let network = load_model(&folder.served_checkpoint(&plan)?, network)?.valid();
        Ok(Self { network, plan, classes, device })
    }

    /// The class names, in the order of the model's outputs.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Classifies an image file: JPEG, PNG or TIFF, of any size.
    ///
    /// Returns every class, the likeliest first.
    ///
    /// # Errors
    /// If the file cannot be read or decoded.
    pub fn predict_file(&self, path: impl AsRef<Path>) -> Result<Vec<Prediction>> {
        let path = path.as_ref();
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        self.predict(&decode(&bytes, &path.display().to_string())?)
    }

    /// Classifies a decoded image of any size.
    ///
    /// Returns every class, the likeliest first.
    ///
    /// # Errors
    /// If the image cannot be resized to the model's input.
    pub fn predict(&self, image: &Image<'_>) -> Result<Vec<Prediction>> {
        let (height, width) = (self.plan.data.height, self.plan.data.width);
        let image = image.clone().resize(height, width);
        let pixels = normalization(&self.plan).planes(&image);
        let pixels = TensorData::new(pixels, [1, 3, height, width]);
        let policy = self.plan.precision;
        let images = Tensor::<4>::from_data(pixels, &self.device).cast(policy.compute);
        let logits = self.network.forward(images).cast(policy.output);
        let probabilities = softmax(logits, 1).into_data();
        let mut predictions: Vec<Prediction> = self
            .classes
            .iter()
            .zip(probabilities.iter::<f32>())
            .map(|(class, probability)| Prediction { class: class.clone(), probability })
            .collect();
        predictions.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        Ok(predictions)
    }

    pub(crate) fn network(&self) -> &Classifier {
        &self.network
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }
}
