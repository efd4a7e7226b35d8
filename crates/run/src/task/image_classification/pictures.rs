//! Pictures of a classifier for the report: its confusion matrix and its most confident mistakes.

use burn::tensor::activation::softmax;
use burn::tensor::{Device, FloatDType, Tensor};
use updraft_data::{ImageSource, Loader};

use crate::error::RunError;
use crate::task::{Picture, Tile};

/// Mistakes that are shown.
const MISTAKES: usize = 16;

/// The longer side of a stored mistake, in pixels; reports show it 96 pixels wide.
const SIDE: usize = 128;

/// The confusion matrix of the test images, and the most confident mistakes. `classify` takes the
/// images of a batch with their classes.
pub(super) fn pictures(
    classify: &mut dyn FnMut(Tensor<4>, &[usize]) -> Tensor<2>,
    test: &Loader,
    images: &dyn ImageSource,
    device: &Device,
) -> Result<Vec<Picture>, RunError> {
    let classes = images.classes().to_vec();
    let mut counts = vec![vec![0_u64; classes.len()]; classes.len()];
    let mut mistakes: Vec<Mistake> = Vec::new();
    for batch in test.epoch(0) {
        let batch = batch?;
        let (labels, indices) = (batch.labels().to_vec(), batch.indices().to_vec());
        let (inputs, _) = batch.to_device(device);
        let logits = classify(inputs, &labels).cast(FloatDType::F32);
        let probabilities: Vec<f32> = softmax(logits, 1).into_data().iter().collect();
        for (row, (&label, &index)) in labels.iter().zip(&indices).enumerate() {
            let row = &probabilities[row * classes.len()..][..classes.len()];
            let largest = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            let Some((predicted, &probability)) = largest else { continue };
            counts[label][predicted] += 1;
            if predicted != label {
                mistakes.push(Mistake { index, label, predicted, probability });
            }
        }
        // The most confident so far; equal ones in the order of the set.
        mistakes
            .sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.index.cmp(&b.index)));
        mistakes.truncate(MISTAKES);
    }
    let mut tiles = Vec::new();
    for Mistake { index, label, predicted, probability } in mistakes {
        let image = images.read(index)?;
        let (height, width) = image.size();
        let scale = SIDE as f64 / height.max(width).max(SIDE) as f64;
        let [height, width] =
            [height, width].map(|side| ((side as f64 * scale).round() as usize).max(1));
        let image = image.resize(height, width);
        let caption = format!(
            "{} predicted as {}, {:.0} %",
            classes[label],
            classes[predicted],
            100.0 * probability
        );
        tiles.push(Tile::try_new(height, width, image.into_pixels(), caption)?);
    }
    let mut pictures = vec![Picture::Confusion { title: None, classes, counts }];
    if !tiles.is_empty() {
        let title = "The most confident mistakes on test images".to_owned();
        pictures.push(Picture::Tiles { title, tiles, per_row: None });
    }
    Ok(pictures)
}

/// A misclassified test image.
struct Mistake {
    index: usize,
    label: usize,
    predicted: usize,
    probability: f32,
}
