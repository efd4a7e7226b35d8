//! A small classifier with all that is hard to resume, and data for it.

use std::path::Path;
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, FloatDType, Int, Tensor};
use updraft_data::{
    Cue, GeneratedConfig, GeneratedImages, HorizontalFlip, ImageBatch, Loader, LoaderConfig, Order,
    Part, Workers,
};
use updraft_precision::Norm;
use updraft_trainer::{
    ClassCounts, EpochReport, Event, Losses, MetricSpec, OptimizerConfig, Run, RunSettings,
    Schedule, SegmentedPass, StepContext, StepSettings, StreamError, Task, cross_entropy, focal,
};

/// A convolution, a batch norm (running statistics), dropout (random state) and a linear layer.
#[derive(Module, Debug)]
pub(crate) struct Classifier {
    conv: Conv2d,
    pub(crate) norm: BatchNorm,
    dropout: Dropout,
    output: Linear,
}

impl Classifier {
    pub(crate) fn new(device: &Device) -> Self {
        device.seed(3);
        let net = Self {
            conv: Conv2dConfig::new([3, 4], [3, 3]).with_stride([2, 2]).init(device),
            norm: BatchNormConfig::new(4).init(device),
            dropout: DropoutConfig::new(0.2).init(),
            output: LinearConfig::new(4 * 7 * 7, 4).init(device),
        };
        // burn draws a parameter when it is first used; draw all of them now.
        net.visit(&mut Draw);
        net
    }

    /// The same without dropout.
    pub(crate) fn calm(device: &Device) -> Self {
        Self { dropout: DropoutConfig::new(0.0).init(), ..Self::new(device) }
    }

    /// The same with a convolution that is not trained.
    pub(crate) fn with_frozen_convolution(self) -> Self {
        Self { conv: self.conv.no_grad(), ..self }
    }

    pub(crate) fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.classify(self.features(images))
    }

    pub(crate) fn features(&self, images: Tensor<4>) -> Tensor<4> {
        let dtype: FloatDType = images.dtype().into();
        let hidden = self.conv.forward(images).cast(FloatDType::F32);
        self.dropout.forward(relu(self.norm.forward(hidden).cast(dtype)))
    }

    pub(crate) fn classify(&self, features: Tensor<4>) -> Tensor<2> {
        self.output.forward(features.flatten(1, 3))
    }

    /// The bits of every number of the model, running statistics included.
    pub(crate) fn bits(&self) -> Vec<u32> {
        self.numbers().into_iter().map(f32::to_bits).collect()
    }

    /// Every number of the model, running statistics included.
    pub(crate) fn numbers(&self) -> Vec<f32> {
        let mut read = Read(Vec::new());
        let model = self.valid();
        model.visit(&mut read);
        let mut numbers = read.0;
        for statistic in [&model.norm.running_mean, &model.norm.running_var] {
            numbers.extend(statistic.value_sync().into_data().iter::<f32>());
        }
        numbers
    }
}

struct Draw;

impl ModuleVisitor for Draw {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let _ = param.val();
    }
}

struct Read(Vec<f32>);

impl ModuleVisitor for Read {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.base().into_data().iter::<f32>());
    }
}

/// 48 generated images of 4 classes in batches of 8.
pub(crate) fn loader(seed: u64) -> Loader {
    loader_of(seed, Part::WHOLE)
}

/// A part of every batch of them.
pub(crate) fn loader_of(seed: u64, part: Part) -> Loader {
    let images = GeneratedConfig::new(Cue::Color, 48).with_size(16, 16).with_seed(seed);
    let config = LoaderConfig::new(8)
        .with_order(Order::Shuffled)
        .with_seed(seed)
        .with_augment(vec![Arc::new(HorizontalFlip)])
        .with_workers(Workers::Count(0))
        .with_part(part);
    Loader::try_new(Arc::new(GeneratedImages::try_new(images).unwrap()), config).unwrap()
}

pub(crate) fn settings(folder: &Path, epochs: u64) -> RunSettings {
    RunSettings {
        seed: 5,
        learning_rate: 0.01,
        schedule: Schedule::WarmupCosine { warmup: 0.2, floor: 0.0 },
        step: StepSettings { clip_norm: Some(1.0), ..StepSettings::default() },
        criterion: "test-accuracy".parse().unwrap(),
        ..RunSettings::new(epochs, folder)
    }
}

/// The reports of the epochs among the events of a run.
pub(crate) fn epochs(events: &[Event]) -> Vec<&EpochReport> {
    let mut epochs = Vec::new();
    for event in events {
        if let Event::Epoch(report) = event {
            epochs.push(report);
        }
    }
    epochs
}

pub(crate) fn optimizer() -> OptimizerConfig {
    OptimizerConfig::Adamw { weight_decay: 0.01, betas: [0.9, 0.999] }
}

pub(crate) fn new_run(device: &Device) -> Run<Classifier> {
    Run::new(Classifier::new(device), optimizer().init())
}

/// Predicts the class of each image.
pub(crate) struct Classify<'a, M> {
    /// Returns the logits.
    pub(crate) forward: &'a dyn Fn(&M, Tensor<4>) -> Tensor<2>,
    pub(crate) loss: ClassLoss,
    pub(crate) segments: Option<&'a dyn SegmentedPass<M, Tensor<4>, Tensor<2>>>,
    /// The paths of normalizations that compute in f32 inside.
    pub(crate) cast_norms: &'a [&'a str],
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ClassLoss {
    CrossEntropy { smoothing: f32 },
    Focal { gamma: f64 },
}

impl<'a, M> Classify<'a, M> {
    /// Cross-entropy with label smoothing.
    pub(crate) fn new(forward: &'a dyn Fn(&M, Tensor<4>) -> Tensor<2>) -> Self {
        let loss = ClassLoss::CrossEntropy { smoothing: 0.1 };
        Self { forward, loss, segments: None, cast_norms: &[] }
    }
}

/// The task of the small classifier.
pub(crate) fn task() -> Classify<'static, Classifier> {
    Classify::new(&Classifier::forward)
}

impl<M> Task<M> for Classify<'_, M> {
    type Batch = ImageBatch;
    type Input = Tensor<4>;
    type Target = Tensor<1, Int>;
    type Output = Tensor<2>;
    type Score = ClassCounts;

    fn place(
        &self,
        batch: ImageBatch,
        device: &Device,
    ) -> Result<(Tensor<4>, Tensor<1, Int>), StreamError> {
        if batch.mix().is_some() {
            return Err("the images are mixed; this task takes one class an image".into());
        }
        Ok(batch.to_device(device))
    }

    fn forward(&self, model: &M, images: Tensor<4>, _: &StepContext) -> Tensor<2> {
        (self.forward)(model, images)
    }

    fn loss(&self, logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Losses {
        let (logits, classes) = (logits.clone(), classes.clone());
        match self.loss {
            ClassLoss::CrossEntropy { smoothing } => cross_entropy(logits, classes, smoothing),
            ClassLoss::Focal { gamma } => focal(logits, classes, gamma),
        }
        .into()
    }

    fn samples(&self, classes: &Tensor<1, Int>) -> usize {
        classes.dims()[0]
    }

    fn example(&self, batch: usize, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
        (Tensor::ones([batch, 3, 16, 16], device), Tensor::zeros([batch], device))
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        vec![ClassCounts::spec()]
    }

    fn measure(&self, logits: &Tensor<2>, classes: &Tensor<1, Int>) -> Option<Tensor<1>> {
        Some(ClassCounts::measure(logits, classes))
    }

    fn values(&self, score: &ClassCounts) -> Vec<Option<f64>> {
        vec![score.accuracy()]
    }

    fn segments(&self) -> Result<&dyn SegmentedPass<M, Tensor<4>, Tensor<2>>, &'static str> {
        self.segments.ok_or("it has none")
    }

    fn casts(&self, norm: &Norm) -> bool {
        self.cast_norms.contains(&norm.path.as_str())
    }
}
