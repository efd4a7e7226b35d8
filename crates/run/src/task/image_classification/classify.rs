//! How a batch of images becomes a loss and a score.

use std::cell::OnceCell;

use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, FloatDType, Int, Tensor};
use updraft_data::{DeviceSamples, Draws, ImageBatch, ImageCollate, Mix, Views, index_tensor};
use updraft_integration::WeightPenalty;
use updraft_precision::Norm;
use updraft_trainer::{
    ClassCounts, Losses, MetricSpec, Mode, SegmentedPass, Segments, StepContext, StreamError, Task,
    with_graph,
};

use super::classifier::{Classifier, WithWeights};
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

/// The logits, `[batch, classes]`; with a penalty also the weights of each integration,
/// `[batch, streams]`.
pub(super) type ClassOutput = WithWeights<Tensor<2>>;

/// Classifies images `[batch, 3, height, width]`.
#[derive(Debug, Clone)]
pub(super) struct Classify {
    pub(super) loss: ClassLoss,
    pub(super) label_smoothing: f32,
    pub(super) distillation: Option<Distillation>,
    /// The penalty of the weights of integrations, added to the loss.
    pub(super) penalty: Option<WeightPenalty>,
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

    /// One pass, with the weights that a penalty needs.
    fn pass<N: Classifier>(&self, model: &N, images: Tensor<4>) -> ClassOutput {
        match self.penalty {
            None => (model.classify(images), Vec::new()),
            Some(_) => model.classify_with_weights(images),
        }
    }
}

impl<N: Classifier> Task<N> for Classify {
    type Batch = ClassBatch;
    type Input = Tensor<4>;
    type Target = ClassTarget;
    type Output = ClassOutput;
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

    fn forward(&self, model: &N, images: Tensor<4>, context: &StepContext) -> ClassOutput {
        let Some(views) = self.views.filter(|_| context.mode == Mode::Evaluation) else {
            return self.pass(model, images);
        };
        // The penalty is that of the images themselves, which are the first view.
        let first = OnceCell::new();
        let logits = views.average(images, |images| {
            let (logits, weights) = self.pass(model, images);
            let _ = first.set(weights);
            logits
        });
        (logits, first.into_inner().unwrap_or_default())
    }

    fn loss(&self, (logits, weights): &ClassOutput, (own, mixed, soft): &ClassTarget) -> Losses {
        let (logits, own, smoothing) = (logits.clone(), own.clone(), self.label_smoothing);
        let student = logits.clone();
        let hard = match mixed {
            None => self.loss.forward(logits, own, smoothing),
            Some((partner, share)) => {
                let shares = class_shares(&logits, own, partner.clone(), share.clone());
                self.loss.of_shares(logits, shares, smoothing)
            }
        };
        let loss = match (&self.distillation, soft) {
            (Some(distillation), Some(teacher)) => {
                distillation.mixed(hard, student, teacher.clone())
            }
            _ => hard,
        };
        match self.penalty {
            None => loss.into(),
            Some(penalty) => {
                let penalty = penalty.of(weights);
                let total = loss.clone() + penalty.clone().cast(FloatDType::from(loss.dtype()));
                Losses { total, parts: vec![penalty] }
            }
        }
    }

    fn parts(&self) -> Vec<String> {
        self.penalty.iter().map(|_| "penalty".to_owned()).collect()
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

    fn measure(&self, (logits, _): &ClassOutput, (own, ..): &ClassTarget) -> Option<Tensor<1>> {
        Some(ClassCounts::measure(logits, own))
    }

    fn values(&self, score: &ClassCounts) -> Vec<Option<f64>> {
        vec![score.accuracy()]
    }

    fn segments(&self) -> Result<&dyn SegmentedPass<N, Tensor<4>, ClassOutput>, &'static str> {
        match self.penalty {
            None => Ok(&InSegments),
            Some(_) => Ok(&InSegmentsWithWeights),
        }
    }

    fn casts(&self, _: &Norm) -> bool {
        // The normalizations of `updraft-conv` compute in f32 internally.
        true
    }
}

/// The segments of a network, with feature maps between them.
struct InSegments;

impl<N: Classifier> SegmentedPass<N, Tensor<4>, ClassOutput> for InSegments {
    fn backward(
        &self,
        model: &N,
        images: Tensor<4>,
        loss: &mut dyn FnMut(ClassOutput) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams {
        let segments = Segments {
            count: model.segment_count(),
            enter: &|model: &N, images| model.enter(images),
            segment: &|model: &N, index, flow| model.run_segment(index, flow),
            leave: &|model: &N, flow| (model.leave(flow), Vec::new()),
        };
        segments.backward(model, images, loss, seed)
    }
}

/// The same with the weights of integrations between them too: the penalty, which the last segment
/// computes, has gradients for the integrations of all segments.
struct InSegmentsWithWeights;

impl<N: Classifier> SegmentedPass<N, Tensor<4>, ClassOutput> for InSegmentsWithWeights {
    fn backward(
        &self,
        model: &N,
        images: Tensor<4>,
        loss: &mut dyn FnMut(ClassOutput) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams {
        let segments = Segments {
            count: model.segment_count(),
            enter: &|model: &N, images| (model.enter(images), Vec::new()),
            segment: &|model: &N, index, flow: WithWeights<N::Flow>| {
                model.run_segment_with_weights(index, flow)
            },
            leave: &|model: &N, flow| model.leave_with_weights(flow),
        };
        segments.backward(model, images, loss, seed)
    }
}
