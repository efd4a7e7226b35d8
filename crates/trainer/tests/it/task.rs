//! Runs whose task, data and settings do not fit each other.

use std::sync::Arc;

use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use updraft_data::{Cue, GeneratedConfig, GeneratedImages, Loader, LoaderConfig, MixUp};
use updraft_precision::Policy;
use updraft_testing::alone;
use updraft_trainer::{
    ClassCounts, Control, Losses, MetricSpec, RunData, StepContext, StreamError, Task, TrainError,
    evaluate, metric_specs,
};

use crate::small::{Classifier, Classify, loader, new_run, settings, task};

/// Generated images that are mixed, two classes each.
fn mixed() -> Loader {
    let images = GeneratedConfig::new(Cue::Color, 48).with_size(16, 16);
    let images = Arc::new(GeneratedImages::try_new(images).unwrap());
    Loader::try_new(images, LoaderConfig::new(8).with_mix_up(MixUp { alpha: 0.2 })).unwrap()
}

#[test]
fn a_batch_that_the_task_refuses_ends_the_run_with_the_reason() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let (mixed, whole) = (mixed(), loader(1));
    for (train, test, split) in [(&mixed, &whole, "training"), (&whole, &mixed, "test")] {
        let data = RunData { train, test: Some(test) };
        let settings = settings(folder.path(), 1);
        let ended = new_run(&device)
            .train(&task(), &settings, data, &device, &mut |_, _| Control::Continue);
        let error = ended.unwrap_err();
        assert!(matches!(error, TrainError::Data { epoch: 0, .. }), "{error}");
        assert_eq!(
            error.to_string(),
            format!(
                "epoch 1, {split} data: the images are mixed; this task takes one class an image"
            )
        );
    }
}

#[test]
fn an_evaluation_reports_why_the_task_refuses_a_batch() {
    let _alone = alone();
    let device = Device::flex();
    let model = Classifier::new(&device);
    let mut poll = |_| Control::Continue;
    let ended = evaluate(&task(), &model, &mixed(), &device, Policy::F32, &mut poll);
    assert_eq!(
        ended.unwrap_err().to_string(),
        "evaluation: the images are mixed; this task takes one class an image"
    );
}

#[test]
fn a_metric_that_the_task_does_not_have_is_refused_before_the_first_batch() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let never = |_: &Classifier, _| panic!("a batch reached the model");
    let data = loader(1);
    let data = RunData { train: &data, test: Some(&data) };
    let mut settings = settings(folder.path(), 1);
    settings.criterion = "test-rmse".parse().unwrap();
    let error = new_run(&device)
        .train(&Classify::new(&never), &settings, data, &device, &mut |_, _| {
            panic!("an event before the error")
        })
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`criterion` is `test-rmse`; it must be one of `test-loss`, `test-accuracy`, `train-loss`, \
         `train-accuracy`"
    );
}

/// A task whose author forgot the value of its metric.
struct Forgetful;

impl Task<Linear> for Forgetful {
    type Batch = ();
    type Input = ();
    type Target = ();
    type Output = ();
    type Score = ();

    fn place(&self, (): (), _: &Device) -> Result<((), ()), StreamError> {
        Ok(((), ()))
    }

    fn forward(&self, _: &Linear, (): (), _: &StepContext) {}

    fn loss(&self, (): &(), (): &()) -> Losses {
        Tensor::zeros([1], &Device::flex()).into()
    }

    fn samples(&self, (): &()) -> usize {
        1
    }

    fn example(&self, _: usize, _: &Device) -> ((), ()) {
        ((), ())
    }

    fn metrics(&self) -> Vec<MetricSpec> {
        vec![ClassCounts::spec()]
    }
}

#[test]
#[should_panic(expected = "`Task::values` returns one value for each metric")]
fn a_metric_without_a_value_is_a_panic_before_anything_is_named_wrongly() {
    let _ = metric_specs(&Forgetful);
}
