//! How a batch of masked images becomes a loss and a score.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, Int, Tensor};
use updraft_models::{MaskedAutoencoder, PatchMasks, normalize_patches, patches_of_images};
use updraft_precision::Norm;
use updraft_trainer::{
    Losses, MetricSpec, SegmentedPass, Segments, StepContext, StreamError, Task,
};

use super::masks::MaskedBatch;
use super::model::{ModelPlan, PatchTarget};
use super::score::MaskedScore;

/// Predicts masked patches; the loss is their mean squared error.
#[derive(Debug, Clone)]
pub(super) struct Reconstruct {
    pub(super) target: PatchTarget,
    /// The sides of a token.
    pub(super) patch: Vec<usize>,
    /// The numbers of a token.
    pub(super) numbers: usize,
    /// Tokens of an image, and those of them that stay visible.
    pub(super) tokens: usize,
    pub(super) visible: usize,
}

/// Visible patches, `[batch, visible, numbers]`, and the numbers of the visible and of the masked
/// ones, `[batch, …]`.
type Visible = (Tensor<3>, Tensor<2, Int>, Tensor<2, Int>);

impl Reconstruct {
    pub(super) fn new(model: &ModelPlan, channels: usize) -> Self {
        let config = model.network(channels);
        Self {
            target: model.target,
            patch: config.encoder.patch.clone(),
            numbers: config.encoder.patch_numbers(),
            tokens: config.encoder.patches(),
            visible: config.visible(),
        }
    }

    /// The patches of images of any rank.
    pub(super) fn patches(
        &self,
        batch: &updraft_data::TensorBatch,
        device: &Device,
    ) -> Result<Tensor<3>, StreamError> {
        Ok(match self.patch.len() {
            2 => patches_of_images(batch.input::<4>(device)?, &self.patch),
            _ => patches_of_images(batch.input::<5>(device)?, &self.patch),
        })
    }
}

impl Task<MaskedAutoencoder> for Reconstruct {
    type Batch = MaskedBatch;
    type Input = Visible;
    type Target = Tensor<3>;
    type Output = Tensor<3>;
    type Score = MaskedScore;

    fn place(
        &self,
        batch: MaskedBatch,
        device: &Device,
    ) -> Result<(Visible, Tensor<3>), StreamError> {
        let patches = self.patches(&batch.images, device)?;
        let masks = PatchMasks::new(&batch.orders, self.visible, device);
        let masked = masks.take_masked(patches.clone());
        let target = match self.target {
            PatchTarget::Pixels => masked,
            PatchTarget::NormalizedPixels => normalize_patches(masked),
        };
        Ok(((masks.take_visible(patches), masks.visible, masks.masked), target))
    }

    fn forward(
        &self,
        model: &MaskedAutoencoder,
        (patches, visible, masked): Visible,
        _: &StepContext,
    ) -> Tensor<3> {
        model.forward(patches, &PatchMasks { visible, masked })
    }

    fn loss(&self, predicted: &Tensor<3>, target: &Tensor<3>) -> Losses {
        let target = target.clone().cast(predicted.dtype());
        (predicted.clone() - target).square().mean().into()
    }

    fn samples(&self, target: &Tensor<3>) -> usize {
        target.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> (Visible, Tensor<3>) {
        let order: Vec<usize> = (0..self.tokens).collect();
        let masks = PatchMasks::new(&vec![order; batch], self.visible, device);
        let patches =
            |count| Tensor::random([batch, count, self.numbers], Distribution::Default, device);
        let target = patches(self.tokens - self.visible);
        ((patches(self.visible), masks.visible, masks.masked), target)
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        MaskedScore::specs()
    }

    fn measure(&self, predicted: &Tensor<3>, target: &Tensor<3>) -> Option<Tensor<1>> {
        Some(MaskedScore::measure(predicted, target))
    }

    fn values(&self, score: &MaskedScore) -> Vec<Option<f64>> {
        score.metrics()
    }

    fn segments(
        &self,
    ) -> Result<&dyn SegmentedPass<MaskedAutoencoder, Visible, Tensor<3>>, &'static str> {
        Ok(&InSegments)
    }

    fn casts(&self, _: &Norm) -> bool {
        // burn's layer normalization computes in f32 internally.
        true
    }
}

/// The blocks of a network, with tokens between them.
struct InSegments;

impl SegmentedPass<MaskedAutoencoder, Visible, Tensor<3>> for InSegments {
    fn backward(
        &self,
        model: &MaskedAutoencoder,
        (patches, visible, masked): Visible,
        loss: &mut dyn FnMut(Tensor<3>) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams {
        let masks = PatchMasks { visible, masked };
        let segments = Segments {
            count: model.segments(),
            enter: &|_: &MaskedAutoencoder, patches| (patches, None),
            segment: &|model: &MaskedAutoencoder, index, flow| model.segment(index, flow, &masks),
            leave: &|model: &MaskedAutoencoder, flow| model.leave(flow, &masks),
        };
        segments.backward(model, patches, loss, seed)
    }
}
