//! A trained masked autoencoder that reconstructs whole images and volumes from masked windows.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};
use updraft_data::{
    ModelError, PredictConfig, Reduction, ScaledVolume, VolumeSource, WindowBatch, WindowProgress,
    open_volume,
};
use updraft_distributed::Collective;
use updraft_models::{MaskedAutoencoder, PatchMasks, images_of_patches, patches_of_images};
use updraft_precision::Policy;

use super::masks::Masks;
use super::model::PatchTarget;
use super::reconstruct::Reconstruct;
use super::{MaskedPlan, OBJECTIVE};
use crate::error::RunError;
use crate::operation::{LayerNames, layer_names};
use crate::task::image_pairs::comparison::{check_compared, compared};
use crate::task::image_pairs::on_ranks::predict_to_tiff;
use crate::task::image_pairs::prediction_files;
use crate::task::{FilePrediction, LoadedModel, Predicted, Predictor as _, WrittenPrediction};

/// Added to the variance of visible patches, so that windows without structure stay finite.
const EPSILON: f64 = 1e-6;

/// Predictions in the values of the image, from what is visible only.
///
/// Normalized predictions are multiplied by the standard deviation within a visible patch, by the
/// mean of its square, and moved to the mean of the visible patches of the sample.
///
/// # Shapes
/// - `predicted`: `[batch, masked, numbers]`, and the same is returned
/// - `visible`: `[batch, visible, numbers]`
pub(super) fn as_pixels(
    target: PatchTarget,
    predicted: Tensor<3>,
    visible: &Tensor<3>,
) -> Tensor<3> {
    match target {
        PatchTarget::Pixels => predicted,
        PatchTarget::NormalizedPixels => {
            let means = visible.clone().mean_dim(2);
            let variance = (visible.clone() - means.clone()).square().mean_dim(2).mean_dim(1);
            predicted * variance.add_scalar(EPSILON).sqrt() + means.mean_dim(1)
        }
    }
}

/// A trained network with the preprocessing of its images.
#[derive(Debug)]
pub(super) struct Reconstructor {
    pub(super) network: MaskedAutoencoder,
    pub(super) policy: Policy,
    pub(super) own: MaskedPlan,
    pub(super) channels: usize,
    pub(super) seed: u64,
    /// Identifies the network: a partial prediction of another one is not continued.
    pub(super) model: String,
    pub(super) device: Device,
}

impl Reconstructor {
    /// Opens an image with the network's rank and channels, normalized like those of the run.
    fn open(&self, path: &Path) -> Result<Arc<dyn VolumeSource>, RunError> {
        let refuse = |cause: String| RunError::Input { path: path.to_owned(), cause: cause.into() };
        if !path.exists() {
            let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(RunError::io("read", path, cause));
        }
        let source = open_volume(path, &self.own.data.open_config())?;
        let (spec, axes) = (*source.spec(), self.own.data.patch.len());
        if spec.raster.channels != self.channels {
            return Err(refuse(format!(
                "its number of channels is {}; that of the images the run was trained on is {}",
                spec.raster.channels, self.channels
            )));
        }
        if spec.raster.sides().len() != axes {
            return Err(refuse(format!(
                "it has {} axes; the run was trained on {axes}: without an OME header, `data.pages` \
                 of the run decides what the pages of a TIFF are",
                spec.raster.sides().len()
            )));
        }
        Ok(Arc::new(ScaledVolume::try_new(source, self.own.data.scale.into())?))
    }

    /// Predicts every patch of windows from others.
    ///
    /// Each pass masks the next patches in one random order, until all were masked; a patch that was
    /// masked twice has the mean of both predictions. The order is the same for every window, so
    /// that the result does not depend on the batches.
    fn reconstruct<const D: usize>(&self, windows: WindowBatch) -> Result<Vec<f32>, ModelError> {
        let sides = windows.sides.clone();
        let task = Reconstruct::new(&self.own.model, self.channels);
        let patches = patches_of_images(windows.to_tensor::<D>(&self.device)?, &task.patch);
        let [batch, tokens, numbers] = patches.dims();
        let masked = tokens - task.visible;
        let order = Masks { seed: self.seed, tokens }.order(None, 0);
        let mut sum = Tensor::<3>::zeros([batch, tokens, numbers], &self.device);
        let mut counts = vec![0.0_f32; tokens];
        for pass in 0..tokens.div_ceil(masked) {
            let mut turned = order.clone();
            // The masked patches are the last of an order.
            turned.rotate_left(((pass + 1) * masked) % tokens);
            let own = PatchMasks::new(&vec![turned.clone(); batch], task.visible, &self.device);
            let visible = own.take_visible(patches.clone());
            let input = visible.clone().cast(self.policy.compute);
            let predicted = self.policy.scope(|| self.network.forward(input, &own));
            let predicted = as_pixels(task.target, predicted.cast(self.policy.output), &visible);
            let ids: Vec<i64> = turned[task.visible..].iter().map(|&at| at as i64).collect();
            for &at in &turned[task.visible..] {
                counts[at] += 1.0;
            }
            let ids = Tensor::<1, Int>::from_data(ids.as_slice(), &self.device);
            let predicted = predicted.cast(sum.dtype());
            sum = sum.select_assign(1, ids, predicted, burn::tensor::IndexingUpdateOp::Add);
        }
        let counts = TensorData::new(counts, [1, tokens, 1]);
        let mean = sum / Tensor::from_data(counts, &self.device);
        Ok(images_of_patches::<D>(mean, &sides, &task.patch).into_data().iter().collect())
    }
}

impl LoadedModel for Reconstructor {
    fn layer_names(&self) -> LayerNames {
        layer_names(&self.network)
    }

    fn capture(&mut self) -> Result<(), &'static str> {
        Err("each pass of a masked autoencoder masks other patches, which are no part of its input")
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn predict(&self, _: &Path) -> Result<Vec<Predicted>, RunError> {
        self.own.check_samples()?;
        Ok(Vec::new())
    }

    fn predict_file(
        &self,
        request: &FilePrediction,
        ranks: &mut dyn Collective,
        progress: &mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
    ) -> Result<Option<WrittenPrediction>, RunError> {
        self.own.check_file(request)?;
        let input = self.open(&request.input)?;
        let own = (&self.own.data, &OBJECTIVE);
        check_compared(request, &*input, own, input.spec().raster.channels)?;
        let config = PredictConfig {
            reduction: Reduction::Keep,
            tiff: prediction_files::TIFF,
            model: self.model.clone(),
        };
        let mut model = |windows: WindowBatch| match windows.sides.len() {
            2 => self.reconstruct::<4>(windows),
            _ => self.reconstruct::<5>(windows),
        };
        let sliding = request.sliding(&self.own.data.patch, 1)?;
        let files = (&*input, &*request.output);
        let written = predict_to_tiff(sliding, files, &config, ranks, &mut model, progress)?;
        let Some(written) = written else { return Ok(None) };
        let metrics = compared(request, own, &self.device)?;
        Ok(Some(WrittenPrediction {
            sides: written.spec.raster.sides(),
            channels: written.spec.raster.channels,
            frames: written.spec.frames,
            resumed_planes: written.resumed_planes,
            components: None,
            metrics,
        }))
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Numbers, assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn normalized_predictions_are_scaled_by_visible_patches() {
        for device in devices() {
            let predicted = Tensor::<3>::from_floats([[[1.0, -1.0]]], &device);
            let visible = Tensor::<3>::from_floats([[[0.0, 4.0], [5.0, 7.0]]], &device);
            // Means 2 and 6, variances 4 and 1.
            let found = as_pixels(PatchTarget::NormalizedPixels, predicted.clone(), &visible);
            let std = 2.5_f64.sqrt();
            assert_close(&found, &vec![4.0 + std, 4.0 - std], tolerance::F32);
            let found = as_pixels(PatchTarget::Pixels, predicted.clone(), &visible);
            assert_eq!(found.numbers(), predicted.numbers());
        }
    }
}
