//! How a batch of images becomes a loss and a score.

use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use updraft_data::TensorBatch;
use updraft_kan::Penalty;
use updraft_precision::Norm;
use updraft_trainer::{
    ImageScores, Losses, MaskScores, MetricSpec, Mode, SegmentedPass, Segments, StepContext,
    StreamError, Task,
};

use super::image_network::ImageNetwork;
use super::score::{ConversionScore, metrics, of_images, of_masks, values};
use super::target::ImageTarget;
use crate::task::image_pairs::channel_losses::ChannelLosses;
use crate::task::image_pairs::data::Shape;
use crate::task::image_pairs::data_plan::LabelKind;
use crate::task::image_pairs::objective::Objective;

/// Converts images into masks or other images.
#[derive(Debug, Clone)]
pub(super) struct Convert {
    pub(super) objective: Objective,
    /// The losses of target channels, if each has its own.
    pub(super) channel_losses: Option<ChannelLosses>,
    pub(super) labels: LabelKind,
    pub(super) shape: Shape,
    /// The sides of a patch.
    pub(super) patch: Vec<usize>,
    /// The standard deviation of the noise that is added to training inputs; test inputs have it
    /// already.
    pub(super) sigma: f64,
    /// Whether coarser levels have their own loss in training.
    pub(super) is_deep: bool,
    /// The penalty of the network's splines, added to the loss.
    pub(super) penalty: Option<Penalty>,
}

/// The output, followed by those of coarser levels with deep supervision, and the penalty of the
/// splines if there is one.
type Converted<const D: usize> = (Vec<Tensor<D>>, Option<Tensor<1>>);

impl Convert {
    /// The task of tensors of `D` axes.
    pub(super) const fn of_rank<const D: usize>(self) -> ConvertRank<D> {
        ConvertRank(self)
    }
}

/// [`Convert`] for images, where `D` is 4, or volumes, where it is 5.
#[derive(Debug, Clone)]
pub(super) struct ConvertRank<const D: usize>(pub(super) Convert);

impl<const D: usize> ConvertRank<D> {
    /// The loss, and that of each channel where they have their own.
    fn loss_of(&self, output: Tensor<D>, target: &ImageTarget<D>) -> (Tensor<1>, Vec<Tensor<1>>) {
        let range = self.0.shape.data_range;
        match (target, self.0.objective, &self.0.channel_losses) {
            (ImageTarget::Masks(labels), Objective::Masks { activation, loss, .. }, _) => {
                (loss.of_mask(flat(output), labels.clone(), activation), Vec::new())
            }
            (ImageTarget::Image(image), Objective::Images { loss: Some(loss) }, _) => {
                let image = image.clone().cast(output.dtype());
                (loss.of_image(output, image, range), Vec::new())
            }
            (ImageTarget::Image(image), _, Some(losses)) => {
                losses.of_image(&output, &image.clone().cast(output.dtype()), range)
            }
            _ => unreachable!("targets are checked when the data is opened"),
        }
    }
}

/// `[batch, channels, positions]`.
fn flat<const D: usize>(maps: Tensor<D>) -> Tensor<3> {
    maps.flatten(2, D - 1)
}

impl<const D: usize, N: ImageNetwork<D>> Task<N> for ConvertRank<D> {
    type Batch = TensorBatch;
    type Input = Tensor<D>;
    type Target = ImageTarget<D>;
    type Output = Converted<D>;
    type Score = ConversionScore;

    fn place(
        &self,
        batch: TensorBatch,
        device: &Device,
    ) -> Result<(Tensor<D>, ImageTarget<D>), StreamError> {
        Ok((batch.input(device)?, ImageTarget::of(&batch, self.0.labels, device)?))
    }

    fn forward(&self, model: &N, images: Tensor<D>, context: &StepContext) -> Converted<D> {
        let penalty = self.0.penalty.and_then(|penalty| penalty.of(model));
        if context.mode == Mode::Evaluation {
            return (vec![model.convert(images)], penalty);
        }
        let images = match self.0.sigma {
            0.0 => images,
            sigma => {
                let noise = images.random_like(Distribution::Normal(0.0, sigma));
                images + noise
            }
        };
        let outputs =
            if self.0.is_deep { model.convert_deep(images) } else { vec![model.convert(images)] };
        (outputs, penalty)
    }

    /// The weighted mean of the outputs' losses, each with half the weight of the next finer one.
    fn loss(&self, (outputs, penalty): &Converted<D>, target: &ImageTarget<D>) -> Losses {
        let (mut weight, mut sum, mut total) = (1.0, 0.0, None);
        // Of the finest output, which is the first.
        let mut parts = None;
        for output in outputs {
            let (loss, of_channels) = self.loss_of(output.clone(), target);
            parts.get_or_insert(of_channels);
            let loss = loss.mul_scalar(weight);
            total = Some(match total {
                None => loss,
                Some(total) => total + loss,
            });
            sum += weight;
            weight /= 2.0;
        }
        let total: Tensor<1> = total.expect("a network has an output");
        let loss = if outputs.len() == 1 { total } else { total.div_scalar(sum) };
        let mut parts = parts.unwrap_or_default();
        let total = match penalty {
            None => loss,
            Some(penalty) => {
                parts.push(penalty.clone());
                loss.clone() + penalty.clone().cast(FloatDType::from(loss.dtype()))
            }
        };
        Losses { total, parts }
    }

    fn parts(&self) -> Vec<String> {
        let of_channels = self.0.channel_losses.iter().flat_map(ChannelLosses::parts);
        of_channels.chain(self.0.penalty.iter().map(|_| "penalty".to_owned())).collect()
    }

    fn samples(&self, target: &ImageTarget<D>) -> usize {
        target.samples()
    }

    fn example(&self, batch: usize, device: &Device) -> (Tensor<D>, ImageTarget<D>) {
        let Convert { shape, patch, objective, .. } = &self.0;
        let dims = |channels: usize| -> [usize; D] {
            std::array::from_fn(|axis| match axis {
                0 => batch,
                1 => channels,
                axis => patch[axis - 2],
            })
        };
        let images = Tensor::random(dims(shape.inputs), Distribution::Default, device);
        let target = match objective {
            Objective::Masks { .. } => {
                ImageTarget::Masks(Tensor::zeros([batch, patch.iter().product()], device))
            }
            Objective::Images { .. } => {
                ImageTarget::Image(Tensor::zeros(dims(shape.outputs), device))
            }
        };
        (images, target)
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        metrics(&self.0.objective)
    }

    fn measure(&self, (outputs, _): &Converted<D>, target: &ImageTarget<D>) -> Option<Tensor<1>> {
        let output = outputs.first()?;
        Some(match (target, self.0.objective) {
            (ImageTarget::Masks(labels), Objective::Masks { activation, .. }) => {
                of_masks(MaskScores::measure(&flat(output.clone()), labels, activation))
            }
            (ImageTarget::Image(image), _) => {
                of_images(ImageScores::measure(output, image, self.0.shape.data_range))
            }
            (ImageTarget::Masks(_), _) => return None,
        })
    }

    /// Without the structural similarity, which costs as much as layers of the network.
    fn measure_in_training(
        &self,
        converted: &Converted<D>,
        target: &ImageTarget<D>,
    ) -> Option<Tensor<1>> {
        match (converted.0.first(), target) {
            (Some(output), ImageTarget::Image(image)) => {
                let range = self.0.shape.data_range;
                Some(of_images(ImageScores::measure_errors(output, image, range)))
            }
            _ => Task::<N>::measure(self, converted, target),
        }
    }

    fn values(&self, score: &ConversionScore) -> Vec<Option<f64>> {
        values(&self.0.objective, score)
    }

    fn segments(&self) -> Result<&dyn SegmentedPass<N, Tensor<D>, Converted<D>>, &'static str> {
        if self.0.is_deep {
            return Err("the losses of coarser levels need all levels at once");
        }
        if self.0.sigma > 0.0 {
            return Err("noise is added to the inputs of whole passes only");
        }
        if self.0.penalty.is_some() {
            return Err("a penalty of splines is computed in whole passes only");
        }
        N::CAN_BE_CUT.map(|()| &InSegments as _)
    }

    fn casts(&self, _: &Norm) -> bool {
        // The normalizations of `updraft-conv` compute in f32 internally.
        true
    }
}

/// The segments of a network, with feature maps between them.
struct InSegments;

impl<const D: usize, N: ImageNetwork<D>> SegmentedPass<N, Tensor<D>, Converted<D>> for InSegments {
    fn backward(
        &self,
        model: &N,
        images: Tensor<D>,
        loss: &mut dyn FnMut(Converted<D>) -> Tensor<1>,
        seed: u64,
    ) -> GradientsParams {
        let segments = Segments {
            count: model.segment_count(),
            enter: &|model: &N, images| model.enter(images),
            segment: &|model: &N, index, flow| model.run_segment(index, flow),
            leave: &|model: &N, flow| (vec![model.leave(flow)], None),
        };
        segments.backward(model, images, loss, seed)
    }
}
