//! Samples that a loader mixed: scored and learned by the shares of their classes.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use updraft_data::{Cue, GeneratedConfig, GeneratedImages, Loader, LoaderConfig, MixUp};
use updraft_precision::Policy;
use updraft_testing::alone;
use updraft_trainer::{
    ClassLoss, Control, Criterion, Ending, Event, RunData, evaluate, soft_cross_entropy,
};

use crate::small::{Classifier, forward, new_run, settings};

/// Generated images that are mixed.
fn mixed_loader() -> Loader {
    let images = GeneratedConfig::new(Cue::Color, 48).with_size(16, 16);
    let images = Arc::new(GeneratedImages::try_new(images).unwrap());
    Loader::try_new(images, LoaderConfig::new(8).with_mix_up(MixUp { alpha: 0.2 })).unwrap()
}

#[test]
fn mixed_samples_are_held_to_their_shares() {
    let _alone = alone();
    let device = Device::flex();
    let data = mixed_loader();
    let model = Classifier::new(&device);
    let whole = |_| Control::Continue;
    let found =
        evaluate(&model, &forward, &data, &device, Policy::F32, &mut { whole }).unwrap().unwrap();
    let mut expected = 0.0;
    for batch in data.epoch(0) {
        let batch = batch.unwrap();
        assert!(batch.mix().is_some());
        let shares = Tensor::<1>::from_data(batch.soft_labels(4).as_slice(), &device);
        let samples = batch.len();
        let (images, _) = batch.to_device(&device);
        let loss = soft_cross_entropy(forward(&model, images), shares.reshape([samples, 4]));
        expected += loss.into_scalar::<f64>() * samples as f64 / 48.0;
    }
    assert!((found.loss - expected).abs() < 1e-6, "{} {expected}", found.loss);
}

#[test]
fn a_run_learns_from_mixed_samples_unless_its_loss_knows_no_shares() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let folder = tempfile::tempdir().unwrap();
    let data = mixed_loader();
    let data = RunData { train: &data, test: None };
    let mut settings = settings(folder.path(), 4);
    settings.criterion = Criterion::TrainLoss;
    let mut losses = Vec::new();
    let mut see = |event: &Event, _: &_| {
        if let Event::Epoch(report) = event {
            losses.push(report.train_loss);
        }
        Control::Continue
    };
    let ended = new_run(&device).train(&settings, data, &device, &forward, &mut see);
    assert_eq!(ended.unwrap().ending, Ending::Complete);
    assert!(losses[3] < losses[0], "{losses:?}");
    settings.step.loss = ClassLoss::Focal { gamma: 2.0 };
    settings.step.label_smoothing = 0.0;
    let ended =
        new_run(&device).train(&settings, data, &device, &forward, &mut |_, _| Control::Continue);
    let told = ended.unwrap_err().to_string();
    assert!(told.starts_with("`loss` is Focal"), "{told}");
}
