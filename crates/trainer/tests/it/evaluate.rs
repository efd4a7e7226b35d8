//! Scoring a model on a data set.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::SgdConfig;
use burn::tensor::{Device, Tensor};
use updraft_precision::{LossScaler, Policy};
use updraft_testing::{alone, assert_close, tolerance};
use updraft_trainer::{
    ClassCounts, Control, StepAt, StepSettings, evaluate, train_step_accumulated,
};

use crate::small::{ClassLoss, Classifier, Classify, loader, task};

#[test]
fn the_score_is_the_mean_over_samples_and_can_be_interrupted() {
    let _alone = alone();
    let device = Device::flex();
    let model = Classifier::new(&device.clone().autodiff()).valid();
    let data = loader(1);
    let task = Classify { loss: ClassLoss::CrossEntropy { smoothing: 0.0 }, ..task() };
    let mut scored = Vec::new();
    let score = evaluate(&task, &model, &data, &device, Policy::F32, &mut |samples| {
        scored.push(samples);
        Control::Continue
    });
    let score = score.unwrap().unwrap();
    assert_eq!(scored, [8, 16, 24, 32, 40, 48]);

    // The same in f64 from the logits of all samples.
    let (mut loss, mut correct) = (0.0, 0);
    for batch in data.epoch(0) {
        let batch = batch.unwrap();
        let labels = batch.labels().to_vec();
        let logits: Vec<f64> =
            model.forward(batch.to_device(&device).0).into_data().iter().collect();
        for (label, logits) in labels.into_iter().zip(logits.chunks(4)) {
            let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
            loss += sum.ln() - logits[label];
            correct += usize::from(logits.iter().all(|&logit| logit <= logits[label]));
        }
    }
    let found = score.evaluation;
    assert!((found.loss() - loss / 48.0).abs() < 1e-5, "{} {}", found.loss(), loss / 48.0);
    assert_eq!(found.value("accuracy"), Some(correct as f64 / 48.0));
    assert_eq!(found.value("rmse"), None);
    assert_eq!((score.score, found.samples), (ClassCounts { correct, samples: 48 }, 48));

    let mut batches = 0;
    let stopped = evaluate(&task, &model, &data, &device, Policy::F32, &mut |_| {
        batches += 1;
        if batches == 2 { Control::Stop } else { Control::Continue }
    });
    assert_eq!((stopped.unwrap(), batches), (None, 2));
}

#[test]
fn a_model_is_scored_by_the_loss_that_it_is_trained_on() {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let data = loader(1);
    // Batch norms and dropout act differently in the two modes; a linear layer does not.
    let forward = |model: &Linear, images: Tensor<4>| model.forward(images.flatten(1, 3));
    for loss in [
        ClassLoss::CrossEntropy { smoothing: 0.0 },
        ClassLoss::CrossEntropy { smoothing: 0.3 },
        ClassLoss::Focal { gamma: 2.0 },
    ] {
        device.seed(1);
        let model: Linear = LinearConfig::new(3 * 16 * 16, 4).init(&device);
        let task = Classify { loss, ..Classify::new(&forward) };
        let plain = device.clone().without_autodiff();
        let mut poll = |_| Control::Continue;
        let scored =
            evaluate(&task, &model.valid(), &data, &plain, Policy::F32, &mut poll).unwrap();
        let scored = scored.unwrap();
        // Without an update: the learning rate is 0.
        let at = StepAt { epoch: 0, step: 0, learning_rate: 0.0, seed: 0 };
        let (_, trained) = train_step_accumulated(
            &task,
            model,
            &mut SgdConfig::new().init(),
            &mut LossScaler::none(),
            &mut data.epoch(0).map(|batch| Ok(batch.unwrap().to_device(&device))),
            &StepSettings::default(),
            at,
        )
        .unwrap();
        assert_close(&trained.loss, &scored.evaluation.loss(), tolerance::F32);
        assert_eq!((trained.score, trained.samples), (scored.score, 48));
    }
}
