//! A trained network that predicts whole images and volumes by sliding windows.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use updraft_data::{
    ComponentConfig, PredictConfig, Reduction, ScaledVolume, SlidingWindow, TiffWriteConfig,
    VolumeSource, WindowBatch, WindowProgress, label_components, open_volume,
};
use updraft_precision::Policy;
use updraft_trainer::MaskActivation;

use super::ImagePlan;
use super::comparison::compare;
use super::data::Shape;
use super::image_network::ImageNetwork;
use super::objective::Objective;
use crate::error::RunError;
use crate::task::{FilePrediction, LoadedModel, Predicted, Predictor as _, WrittenPrediction};

/// A trained network with the preprocessing of its images.
#[derive(Debug)]
pub(super) struct ImageConverter<const D: usize, N> {
    pub(super) network: N,
    pub(super) own: ImagePlan,
    pub(super) shape: Shape,
    /// The checkpoint's path and content.
    pub(super) model: String,
    pub(super) policy: Policy,
    pub(super) device: Device,
}

impl<const D: usize, N: ImageNetwork<D>> ImageConverter<D, N> {
    /// Opens an image with the network's rank and channels, normalized like those of the run.
    fn open(&self, path: &Path) -> Result<Arc<dyn VolumeSource>, RunError> {
        let refuse = |cause: String| RunError::Input { path: path.to_owned(), cause: cause.into() };
        if !path.exists() {
            let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(RunError::io("read", path, cause));
        }
        let source = open_volume(path, &self.own.data.open_config())?;
        let (spec, axes) = (*source.spec(), self.own.data.patch.len());
        if spec.raster.channels != self.shape.inputs {
            return Err(refuse(format!(
                "it has {} channels; the run was trained on {}",
                spec.raster.channels, self.shape.inputs
            )));
        }
        if spec.raster.sides().len() != axes {
            return Err(refuse(format!(
                "it has {} axes; the run was trained on {axes}: `data.pages` decides what the \
                 pages of a TIFF are",
                spec.raster.sides().len()
            )));
        }
        Ok(Arc::new(ScaledVolume::try_new(source, self.own.data.scale.into())?))
    }

    fn sliding(&self, request: &FilePrediction) -> SlidingWindow {
        let window = request.window.clone().unwrap_or_else(|| self.own.data.patch.clone());
        SlidingWindow::new(&window)
            .with_overlap(&request.overlap)
            .with_batch(request.batch)
            .with_blend(request.blend.clone())
            .with_mirror(&request.mirror)
            .with_multiple_of(&[self.own.model.stride()])
    }

    fn reduction(&self, request: &FilePrediction) -> Reduction {
        match self.own.objective {
            _ if request.keeps_channels => Reduction::Keep,
            Objective::Images { .. } => Reduction::Keep,
            Objective::Masks { activation: MaskActivation::Sigmoid, .. } => Reduction::Above(0.0),
            Objective::Masks { .. } => Reduction::ArgMax,
        }
    }
}

impl<const D: usize, N: ImageNetwork<D>> LoadedModel for ImageConverter<D, N> {
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
        progress: &mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
    ) -> Result<WrittenPrediction, RunError> {
        self.own.check_file(request)?;
        let input = self.open(&request.input)?;
        let config = PredictConfig {
            reduction: self.reduction(request),
            tiff: TiffWriteConfig::default(),
            model: self.model.clone(),
        };
        let mut model = |windows: WindowBatch| {
            let windows: Tensor<D> = windows.to_tensor(&self.device)?;
            let output = self.network.convert(windows.cast(self.policy.compute));
            Ok(output.cast(self.policy.output).into_data().iter().collect())
        };
        let sliding = self.sliding(request);
        let written =
            sliding.predict_to_tiff(&*input, &request.output, &config, &mut model, progress)?;
        let mut components = None;
        if let Some(files) = &request.components {
            let mask = open_volume(&request.output, &self.own.data.open_config())?;
            let found = label_components(&*mask, ComponentConfig::default())?;
            found.write(&*mask, &files.labels, &TiffWriteConfig::default())?;
            found.write_csv(&files.table)?;
            components = Some(found.table().len());
        }
        let metrics = match &request.truth {
            None => Vec::new(),
            Some(truth) => compare(&request.output, truth, &self.own, &self.device)?,
        };
        Ok(WrittenPrediction {
            sides: written.spec.raster.sides(),
            channels: written.spec.raster.channels,
            frames: written.spec.frames,
            resumed_planes: written.resumed_planes,
            components,
            metrics,
        })
    }
}
