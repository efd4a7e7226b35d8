//! How a batch of images becomes a loss and a score.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, Int, Tensor};
use updraft_data::{DeviceSamples, Draws, ImageBatch, ImageCollate, Mix, Views, index_tensor};
use updraft_precision::Norm;
use updraft_trainer::{
    ClassCounts, Losses, MetricSpec, Mode, SegmentedPass, Segments, StepContext, StreamError, Task,
    with_graph,
};

use super::classifier::Classifier;
use super::distill::Distillation;
use super::loss::{ClassLoss, class_shares};
use crate::task::resident::BatchFrom;

/// A batch of images with their classes; on the device `[batch, 3, height, width]` and `[batch]`.
pub(super) type ClassBatch = BatchFrom<ImageBatch, (Tensor<4>, Tensor<1, Int>)>;

/// All images of a set on the device, with their classes.
pub(super) struct PlacedImages {
    images: Tensor<4>,
    classes: Tensor<1, Int>,
}

impl PlacedImages {
    pub(super) fn new(_: &ImageCollate, all: ImageBatch, device: &Device) -> Self {
        let (images, classes) = all.to_device(device);
        Self { images, classes }
    }
}

impl DeviceSamples for PlacedImages {
    type Batch = (Tensor<4>, Tensor<1, Int>);

    fn select(&self, Draws { indices, .. }: Draws<'_>) -> Self::Batch {
        let places = index_tensor(indices, &self.images.device());
        let images = self.images.clone().select(0, places.clone());
        (images, self.classes.clone().select(0, places))
    }
}

/// The class of each sample, `[batch]`; for mixed samples also the partner's class and the own
/// class's share, both `[batch]`; in distillation also the teacher's logits, `[batch, classes]`.
pub(super) type ClassTarget =
    (Tensor<1, Int>, Option<(Tensor<1, Int>, Tensor<1>)>, Option<Tensor<2>>);

/// Classifies images `[batch, 3, height, width]`.
#[derive(Debug, Clone)]
pub(super) struct Classify {
    pub(super) loss: ClassLoss,
    pub(super) label_smoothing: f32,
    pub(super) distillation: Option<Distillation>,
    /// Height and width of an image.
    pub(super) size: (usize, usize),
    /// The views over which logits are averaged in evaluations.
    pub(super) views: Option<Views>,
}

impl Classify {
    /// The teacher's logits of training images; evaluations score the labels only.
    fn soft(&self, images: &Tensor<4>, device: &Device) -> Option<Tensor<2>> {
        let distillation = self.distillation.as_ref().filter(|_| device.is_autodiff())?;
        let logits = distillation.answer(images)?;
        Some(with_graph(logits, device))
    }
}

impl<N: Classifier> Task<N> for Classify {
    type Batch = ClassBatch;
    type Input = Tensor<4>;
    type Target = ClassTarget;
    type Output = Tensor<2>;
    type Score = ClassCounts;

    fn place(
        &self,
        batch: ClassBatch,
        device: &Device,
    ) -> Result<(Tensor<4>, ClassTarget), StreamError> {
        let batch = match batch {
            BatchFrom::Loader(batch) => batch,
            BatchFrom::Device((images, classes)) => {
                let soft = self.soft(&images, device);
                return Ok((with_graph(images, device), (with_graph(classes, device), None, soft)));
            }
        };
        let mix = batch.mix().cloned();
        let (images, own) = batch.to_device(device);
        let mixed = mix.map(|Mix { shares, partner_labels }| {
            let partners: Vec<i64> = partner_labels.into_iter().map(|label| label as i64).collect();
            let partners = Tensor::from_data(partners.as_slice(), device);
            (partners, Tensor::from_data(shares.as_slice(), device))
        });
        let soft = self.soft(&images, device);
        Ok((images, (own, mixed, soft)))
    }

    fn forward(&self, model: &N, images: Tensor<4>, context: &StepContext) -> Tensor<2> {
        match self.views.filter(|_| context.mode == Mode::Evaluation) {
            None => model.classify(images),
            Some(views) => views.average(images, |images| model.classify(images)),
        }
    }

    fn loss(&self, logits: &Tensor<2>, (own, mixed, soft): &ClassTarget) -> Losses {
        let (logits, own, smoothing) = (logits.clone(), own.clone(), self.label_smoothing);
        let student = logits.clone();
        let hard = match mixed {
            None => self.loss.forward(logits, own, smoothing),
            Some((partner, share)) => {
                let shares = class_shares(&logits, own, partner.clone(), share.clone());
                self.loss.of_shares(logits, shares, smoothing)
            }
        };
        match (&self.distillation, soft) {
            (Some(distillation), Some(teacher)) => {
                distillation.mixed(hard, student, teacher.clone()).into()
            }
            _ => hard.into(),
        }
    }

    fn samples(&self, (own, ..): &ClassTarget) -> usize {
        own.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> (Tensor<4>, ClassTarget) {
        let (height, width) = self.size;
        let images = Tensor::random([batch, 3, height, width], Distribution::Default, device);
        let soft = self.soft(&images, device);
        (images, (Tensor::zeros([batch], device), None, soft))
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        vec![ClassCounts::spec()]
    }

    fn measure(&self, logits: &Tensor<2>, (own, ..): &ClassTarget) -> Option<Tensor<1>> {
        Some(ClassCounts::measure(logits, own))
    }

    fn values(&self, score: &ClassCounts) -> Vec<Option<f64>> {
        vec![score.accuracy()]
    }

    fn segments(&self) -> Result<&dyn SegmentedPass<N, Tensor<4>, Tensor<2>>, &'static str> {
        Ok(&InSegments)
    }

    fn casts(&self, _: &Norm) -> bool {
        // The normalizations of `updraft-conv` compute in f32 internally.
        true
    }
}

/// The segments of a network, with feature maps between them.
struct InSegments;

impl<N: Classifier> SegmentedPass<N, Tensor<4>, Tensor<2>> for InSegments {
    fn backward(
        &self,
        model: &N,
        images: Tensor<4>,
        loss: &mut dyn FnMut(Tensor<2>) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams {
        let segments = Segments {
            count: model.segment_count(),
            enter: &|model: &N, images| model.enter(images),
            segment: &|model: &N, index, flow| model.run_segment(index, flow),
            leave: &|model: &N, flow| model.leave(flow),
        };
        segments.backward(model, images, loss, seed)
    }
}
