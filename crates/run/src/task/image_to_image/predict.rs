//! A trained network that predicts whole images and volumes by sliding windows.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use updraft_data::{
    ComponentConfig, ModelError, PredictConfig, Reduction, ScaledVolume, VolumeSource, WindowBatch,
    WindowProgress, label_components, open_volume,
};
use updraft_distributed::Collective;
use updraft_precision::Policy;
use updraft_trainer::{CaptureReport, MaskActivation};

use super::ImagePlan;
use super::image_network::ImageNetwork;
use crate::error::RunError;
use crate::int8_network::Int8Network;
use crate::operation::{LayerNames, layer_names};
use crate::task::image_pairs::comparison::{check_compared, compared};
use crate::task::image_pairs::data::Shape;
use crate::task::image_pairs::objective::Objective;
use crate::task::image_pairs::on_ranks::predict_to_tiff;
use crate::task::image_pairs::prediction_files;
use crate::task::{
    FilePrediction, LoadedModel, Predicted, Predictor as _, Quantizer as _, Replayable,
    WrittenPrediction,
};

/// A network that converts windows.
pub(super) trait Converts: Debug + Send {
    /// The outputs of a batch of windows, one after the other.
    fn convert(&self, windows: WindowBatch, device: &Device) -> Result<Vec<f32>, ModelError>;

    /// Checks that it converts windows of the size that is asked for.
    fn check(&self, plan: &ImagePlan, request: &FilePrediction) -> Result<(), RunError>;

    fn layer_names(&self) -> LayerNames;

    /// Records the forward pass at its next call and replays it then.
    ///
    /// # Errors
    /// The reason why it cannot be.
    fn capture(&mut self) -> Result<(), &'static str>;

    /// How captured calls were computed.
    fn capture_report(&self) -> Option<CaptureReport>;
}

/// A trained network of tensors with `D` axes, in the precision of its run.
#[derive(Debug)]
pub(super) struct InPrecision<const D: usize, N> {
    network: N,
    policy: Policy,
    replayable: Replayable<Tensor<D>, Tensor<D>>,
}

impl<const D: usize, N: ImageNetwork<D>> InPrecision<D, N> {
    pub(super) fn new(network: N, policy: Policy) -> Self {
        Self { network, policy, replayable: Replayable::default() }
    }
}

fn outputs_of<const D: usize, N: ImageNetwork<D>>(
    network: &N,
    policy: Policy,
    windows: Tensor<D>,
) -> Tensor<D> {
    let windows = windows.cast(policy.compute);
    policy.scope(|| network.convert(windows)).cast(policy.output)
}

impl<const D: usize, N: ImageNetwork<D>> Converts for InPrecision<D, N> {
    fn convert(&self, windows: WindowBatch, device: &Device) -> Result<Vec<f32>, ModelError> {
        let windows: Tensor<D> = windows.to_tensor(device)?;
        let plain = |windows| outputs_of(&self.network, self.policy, windows);
        Ok(self.replayable.call(windows, plain).into_data().iter().collect())
    }

    fn capture(&mut self) -> Result<(), &'static str> {
        let (network, policy) = (self.network.clone(), self.policy);
        self.replayable.capture(move |windows| outputs_of(&network, policy, windows));
        Ok(())
    }

    fn capture_report(&self) -> Option<CaptureReport> {
        self.replayable.report()
    }

    fn check(&self, _: &ImagePlan, _: &FilePrediction) -> Result<(), RunError> {
        Ok(())
    }

    fn layer_names(&self) -> LayerNames {
        layer_names(&self.network)
    }
}

impl Converts for Int8Network {
    fn convert(&self, windows: WindowBatch, _: &Device) -> Result<Vec<f32>, ModelError> {
        Ok(self.outputs(&windows.values))
    }

    fn check(&self, plan: &ImagePlan, request: &FilePrediction) -> Result<(), RunError> {
        plan.check_file_int8(request)
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
pub(super) struct ImageConverter<C> {
    pub(super) network: C,
    pub(super) own: ImagePlan,
    pub(super) shape: Shape,
    /// Identifies the network: a partial prediction of another one is not continued.
    pub(super) model: String,
    pub(super) device: Device,
}

impl<C: Converts> ImageConverter<C> {
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
                "its number of channels is {}; that of the images the run was trained on is {}",
                spec.raster.channels, self.shape.inputs
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

    fn reduction(&self, request: &FilePrediction) -> Reduction {
        match self.own.objective {
            _ if request.keeps_channels => Reduction::Keep,
            Objective::Images { .. } => Reduction::Keep,
            Objective::Masks { activation: MaskActivation::Sigmoid, .. } => Reduction::Above(0.0),
            Objective::Masks { .. } => Reduction::ArgMax,
        }
    }
}

impl<C: Converts> LoadedModel for ImageConverter<C> {
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
        self.network.check(&self.own, request)?;
        let input = self.open(&request.input)?;
        let own = (&self.own.data, &self.own.objective);
        check_compared(request, &*input, own, self.shape.outputs)?;
        let config = PredictConfig {
            reduction: self.reduction(request),
            tiff: prediction_files::TIFF,
            model: self.model.clone(),
        };
        let mut model = |windows: WindowBatch| self.network.convert(windows, &self.device);
        let sliding = request.sliding(&self.own.data.patch, self.own.model.stride())?;
        let files = (&*input, &*request.output);
        let written = predict_to_tiff(sliding, files, &config, ranks, &mut model, progress)?;
        let Some(written) = written else { return Ok(None) };
        let mut components = None;
        if let Some(files) = &request.components {
            let mask = open_volume(&request.output, &self.own.data.open_config())?;
            let found = label_components(&*mask, ComponentConfig::default())?;
            found.write(&*mask, &files.labels, &prediction_files::TIFF)?;
            found.write_csv(&files.table)?;
            components = Some(found.table().len());
        }
        let metrics = compared(request, own, &self.device)?;
        Ok(Some(WrittenPrediction {
            sides: written.spec.raster.sides(),
            channels: written.spec.raster.channels,
            frames: written.spec.frames,
            resumed_planes: written.resumed_planes,
            components,
            metrics,
        }))
    }
}
