//! A small classifier with all that is hard to resume, and data for it.

use std::path::Path;
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, FloatDType, Tensor};
use updraft_data::{
    Augment, Cue, GeneratedConfig, GeneratedImages, HorizontalFlip, Loader, LoaderConfig, Order,
    Workers,
};
use updraft_precision::LossScale;
use updraft_trainer::{
    BatchNormStatistics, CheckpointSettings, Criterion, OptimizerConfig, Run, RunSettings,
    Schedule, StepSettings,
};

/// A convolution, a batch norm (running statistics), dropout (random state) and a linear layer.
#[derive(Module, Debug)]
pub(crate) struct Classifier {
    conv: Conv2d,
    norm: BatchNorm,
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
    let images = GeneratedConfig::new(Cue::Color, 48).with_size(16, 16).with_seed(seed);
    let config = LoaderConfig::new(8)
        .with_order(Order::Shuffled)
        .with_seed(seed)
        .with_augment(vec![Augment::HorizontalFlip(HorizontalFlip)])
        .with_workers(Workers::Count(0));
    Loader::try_new(Arc::new(GeneratedImages::try_new(images).unwrap()), config).unwrap()
}

pub(crate) fn settings(folder: &Path, epochs: u64) -> RunSettings {
    RunSettings {
        epochs,
        seed: 5,
        learning_rate: 0.01,
        schedule: Schedule::WarmupCosine { warmup: 0.2, floor: 0.0 },
        plateau: None,
        step: StepSettings {
            label_smoothing: 0.1,
            clip_norm: Some(1.0),
            ..StepSettings::default()
        },
        loss_scale: LossScale::None,
        accumulate: 1,
        ema: None,
        batch_norm: BatchNormStatistics::Running,
        criterion: Criterion::TestAccuracy,
        early_stop: None,
        checkpoints: CheckpointSettings {
            folder: folder.to_owned(),
            every_steps: None,
            keep_last: 2,
            keep_best: 0,
        },
    }
}

pub(crate) fn optimizer() -> OptimizerConfig {
    OptimizerConfig::Adamw { weight_decay: 0.01 }
}

pub(crate) fn new_run(device: &Device) -> Run<Classifier> {
    Run::new(Classifier::new(device), optimizer().init())
}

pub(crate) fn forward(model: &Classifier, images: Tensor<4>) -> Tensor<2> {
    model.forward(images)
}
